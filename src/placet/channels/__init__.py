"""Channels: ways on which people and programs are told that something waits, each behind `placet.ports.Channel`."""
