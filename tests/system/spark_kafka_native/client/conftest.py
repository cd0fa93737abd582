from tests.support.scripted.fixtures import client_of_brokers

cluster = client_of_brokers()
"""A client of the module's ``brokers``."""
