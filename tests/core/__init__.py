"""Tests of the core at its highest door: settings in, tools called, requests looked at."""
