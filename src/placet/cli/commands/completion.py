"""`placet completion SHELL`: a script with which bash, zsh or fish complete commands, options and ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from placet.cli.options import command


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="for which shell")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script with which your shell completes commands, actions, options and ids:

    \b
      bash  source <(placet completion bash), in ~/.bashrc
      zsh   placet completion zsh > a file named _placet in a folder of $fpath
      fish  placet completion fish > ~/.config/fish/completions/placet.fish
    """
    found = get_completion_class(shell)
    assert found is not None, "the shells above are those that click knows"
    print(found(context.find_root().command, {}, "placet", "_PLACET_COMPLETE").source())
