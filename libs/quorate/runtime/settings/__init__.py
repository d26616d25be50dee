"""A service's configuration: files, environment and command line become one frozen dataclass.

config           loads and validates a service's configuration: file, environment, command line, into a frozen
                 dataclass
setting_types    the types of configuration values, each with its rule for error messages
named_endpoints  addresses of other nodes in settings, with the name of the listener: id@NAME://host:port
stop_settings    the setting of all services for the time of a stop
"""
