"""The catalog, offered to each host in that host's own words. A face only translates."""
