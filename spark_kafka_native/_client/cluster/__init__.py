"""The cluster: connections, metadata, leaders and coordinators of partitions, groups and transactional ids."""
