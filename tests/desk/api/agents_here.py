"""What `placet serve tests.desk.api.agents_here:agents` serves."""

from tests.support.desk_server import support_agents

agents = support_agents()
