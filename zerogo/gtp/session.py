"""The conversation: takes line after line, lets the engine answer, and lives through whatever a command does."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from zerogo.errors import InputError
from zerogo.gtp import protocol
from zerogo.gtp.protocol import Input, Output, Request, Stream
from zerogo.gtp.registry import COMMANDS, QUIT, STREAMS

if TYPE_CHECKING:
    from zerogo.gtp.engine import Engine


def serve(engine: Engine, source: Input, output: Output) -> None:
    """Answers every line until `quit` or the end of the input."""
    engine.interrupted = source.asks_to_stop
    while (line := source.take()) is not None:
        request = protocol.parse(line)
        if request is not None:
            answer(engine, request, source, output)
            if request.command == QUIT:
                return


def answer(engine: Engine, request: Request, source: Input, output: Output) -> None:
    """Writes the reply to one request. What goes wrong inside is a refusal, too: a game is not lost because one command
    is broken.
    """
    stream = Stream(request.id, output, source)
    try:
        if request.command in STREAMS:
            STREAMS[request.command](engine, request.arguments, stream)
            if not stream.has_begun:
                stream.begin()
            stream.end()
        elif request.command in COMMANDS:
            output.reply(request.id, COMMANDS[request.command](engine, request.arguments))
        else:
            raise InputError("unknown command")
    except InputError as error:
        _refuse(stream, output, request, str(error))
    except BrokenPipeError:
        raise  # nobody reads any more
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        engine.warn(
            f"internal error in {request.command}: {type(error).__name__} at {where.filename}, line {where.lineno}: {error}"
        )
        _refuse(stream, output, request, f"internal error: {type(error).__name__}")


def _refuse(stream: Stream, output: Output, request: Request, text: str) -> None:
    """Refuses a request, or ends the reply where it has begun already."""
    if stream.has_begun:
        stream.end()
    else:
        output.refuse(request.id, text)
