"""Connections between processes: TLS 1.3 with certificates that are replaced while connections are at work.

peers              the address of the other end of a call
transport          TLS 1.3 of servers and clients: certificates that are replaced while both are at work
reloading_channel  a client's channel, made anew when its certificates are
"""
