"""Command lines of the jobs, the tools and the broker, made with click: commands, options, output, properties files."""
