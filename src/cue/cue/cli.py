"""The ``cue`` command. Every subcommand imports what it needs only when it runs, so that the command starts at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from cue_core.errors import CueError

USAGE_ERROR = 2
"""Exit code of wrong arguments and of anything that cannot start as it was asked."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        """Say what is wrong in one line; argparse itself would print the usage as well."""
        raise SystemExit(_fail(f"{message}; '{self.prog} --help' tells more"))


def _fail(message: object) -> int:
    print(f"cue: {' '.join(str(message).split())}", file=sys.stderr)
    return USAGE_ERROR


def _launch(options: argparse.Namespace) -> int:
    from cue.launch_command import launch

    return launch(options.file, options.arguments, show_args=options.show_args, dry_run=options.print)


def _doctor(options: argparse.Namespace) -> int:
    if options.answer is not None or options.peer:
        from cue.commands import doctor_between_machines

        return doctor_between_machines(options.answer, options.peer, print)
    from cue.doctor import run_checks

    return run_checks(print, only=options.only)


def _report(options: argparse.Namespace) -> int:
    from cue.commands import report

    return report(options.run, options.picture, print)


def _status(options: argparse.Namespace) -> int:
    from cue.status_node import status

    return status(options, print)


def _compare(options: argparse.Namespace) -> int:
    from cue.compare import compare

    return compare(options.runs, options.json, print)


def _replay(options: argparse.Namespace) -> int:
    from cue.replay_node import replay

    return replay(options, print)


def _agent(options: argparse.Namespace) -> int:
    from cue.agent_page import write_agent_page

    print(write_agent_page(options.run))
    return 0


def _fit(options: argparse.Namespace) -> int:
    from cue.fit_command import fit_command

    return fit_command(options)


def _import(options: argparse.Namespace) -> int:
    from cue.import_command import import_shots

    return import_shots(options.recording, options.out, options.table, print)


def _predict(options: argparse.Namespace) -> int:
    from cue.predict_command import predict_command

    return predict_command(options)


def _residuals(options: argparse.Namespace) -> int:
    from cue.residuals_command import residuals_command

    return residuals_command(options)


def _export(options: argparse.Namespace) -> int:
    from cue.export_command import export_command

    return export_command(options)


def _calibrate(options: argparse.Namespace) -> int:
    from cue.commands import calibrate

    return calibrate(options)


def _bench(options: argparse.Namespace) -> int:
    from cue.bench import bench

    return bench(options)


def _track(options: argparse.Namespace) -> int:
    from cue.track_command import track

    return track(options)


def _calibrate_camera(options: argparse.Namespace) -> int:
    from cue.calibrate_camera_command import calibrate_camera

    return calibrate_camera(options)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be 0 or more, got {text}")
    return int(text)


def _add_table(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--table", default="", help="name in config/tables, or a path (default: of the twin.json beside the shots)"
    )


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("--estimate", default="", metavar="FILE", help="estimates (.jsonl), twin.json or run folder")
    command.add_argument("--revision", type=_count, metavar="N", help="of the estimate (default: the newest promoted)")
    _add_table(command)


def _add_json(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--json", nargs="?", const="-", default="", metavar="FILE", help="write the result as JSON, here if no FILE"
    )


def _add_skip_bad(command: argparse.ArgumentParser) -> None:
    command.add_argument("--skip-bad", action="store_true", help="leave out lines of the log that are no records")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="cue", description="CUE calibrates the twin of a pool table by playing on it.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run_command=run)
        return command

    launch = add("launch", _launch, "start a graph of processes: sim_world, real_table, rviz")
    launch.add_argument("file", help="an installed launch file by name, or a path")
    launch.add_argument("arguments", nargs="*", default=[], metavar="name:=value", help="launch arguments")
    launch.add_argument("-s", "--show-args", action="store_true", help="show the launch file's arguments")
    launch.add_argument("-p", "--print", action="store_true", help="print the processes without starting them")

    doctor = add("doctor", _doctor, "check this machine and say what is wrong and what to do")
    doctor.add_argument("only", nargs="*", default=[], metavar="CHECK", help="only these checks")

    doctor.add_argument("--peer", metavar="HOST", help="check that nodes on another machine are found")
    doctor.add_argument("--answer", metavar="SECONDS", type=float, nargs="?", const=300.0, help="be that machine")

    report = add("report", _report, "write the report of a run")
    report.add_argument("run", help="run folder")
    report.add_argument("--picture", default="", metavar="FILE", help="write an overview as PNG instead")

    agent = add("agent", _agent, "'cue agent replay RUN': write a language model's session as a page")
    agent.add_argument("act", choices=("replay",), help="write agent.html: what it was told, thought and did")
    agent.add_argument("run", help="run folder")

    status = add("status", _status, "show the health of a running graph: its nodes, how fast they are, what is wrong")
    status.add_argument("--namespace", default="", help="of the graph (default: all)")
    status.add_argument("--watch", action="store_true", help="go on until Ctrl-C")
    status.add_argument("--details", action="store_true", help="everything that the nodes tell")
    status.add_argument("--json", action="store_true", help="print JSON instead")

    compare = add("compare", _compare, "compare runs: errors, what was learnt, and what it cost")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    _add_json(compare)

    replay = add("replay", _replay, "play a run's recording (record:=topics) onto the topics it came from")
    replay.add_argument("run", metavar="RUN|FILE", help="run folder, or a recording (.mcap)")
    replay.add_argument("--rate", type=float, default=1.0, help="2 = twice as fast (default: %(default)s)")
    replay.add_argument("--start", type=float, default=0.0, metavar="S", help="begin that many seconds in")
    replay.add_argument("--loop", action="store_true", help="begin again at the end")
    replay.add_argument("--longest-pause", type=float, metavar="S", help="cut pauses, e.g. while a fit computed")
    replay.add_argument("--topics", default="", metavar="NAME,...", help="only these")
    replay.add_argument("--inputs-of", default="", metavar="NODE", help="only what tracker, fitter or twin listen to")
    replay.add_argument("--paced", action="store_true", help="wait for a tracker's answer after each image")
    replay.add_argument(
        "--delay", type=float, default=2.0, metavar="S", help="begin when no reader came for that long (default: 2)"
    )
    replay.add_argument("--repair", action="store_true", help="only finish files that were cut off by a crash")

    fit = add(
        "fit", _fit, "fit the parameters of a table to recorded shots; docs/identification.md explains the result"
    )
    fit.add_argument("shots", metavar="RUN|SHOTS", help="run folder, or shots.jsonl")
    _add_table(fit)
    fit.add_argument("--terms", default="usual", metavar="auto|NAME,...", help="what is fitted (default: %(default)s)")
    fit.add_argument(
        "--learn", action="store_true", help="then learn what no parameter explains, if held-out shots agree"
    )
    fit.add_argument("--hold-out", default="", metavar="ID,...", help="shots that only judge; or newest:N, random:N")
    fit.add_argument(
        "--start", default="", metavar="FILE", help="estimate to start from and to beat (default: nominal)"
    )
    fit.add_argument("--revision", type=_count, metavar="N", help="of that estimate (default: the newest promoted)")
    fit.add_argument("--resume", action="store_true", help="go on where the last fit that keeps to --out was stopped")
    fit.add_argument(
        "--evaluations",
        type=_count,
        default=0,
        metavar="N",
        help="budget of simulated shots of the search, 0 = the fitter's own (default: %(default)s)",
    )
    fit.add_argument("--seed", type=_count, default=0, help="(default: %(default)s)")
    fit.add_argument(
        "--threads", type=_count, default=0, metavar="N", help="no influence on the result (default: cores)"
    )
    fit.add_argument("--out", default="", metavar="FILE", help="append estimates (default: fit.jsonl beside SHOTS)")
    _add_json(fit)
    _add_skip_bad(fit)

    predict = add("predict", _predict, "predict recorded shots and say how far off each ball was")
    predict.add_argument("run", metavar="RUN|SHOTS", help="run folder, or shots.jsonl")
    predict.add_argument("shot", nargs="*", default=[], help="ids or numbers of the shots, from 0 (default: all)")
    _add_model(predict)
    predict.add_argument("--all", action="store_true", help="show balls that did not move, too")
    predict.add_argument("--ensemble", type=_count, default=64, metavar="N", help="draws (default: %(default)s)")
    predict.add_argument("--only-parameters", action="store_true", help="draw no errors of stroke and resting places")
    predict.add_argument("--seed", type=_count, default=0, help="of the draws (default: %(default)s)")
    predict.add_argument("--json", action="store_true", help="print JSON instead")
    _add_skip_bad(predict)

    residuals = add("residuals", _residuals, "show where a twin errs: by contact, speed, place and time")
    residuals.add_argument("run", metavar="RUN|SHOTS", help="run folder, or shots.jsonl")
    residuals.add_argument("shot", nargs="*", default=[], help="ids or numbers of the shots, from 0 (default: all)")
    _add_model(residuals)
    residuals.add_argument(
        "--out", default="", metavar="DIR", help="for all files (default: residuals beside the shots)"
    )
    _add_skip_bad(residuals)

    export = add("export", _export, "write both files of a twin: twin.json (exact) and twin.xml (portable MJCF)")
    export.add_argument("estimate", metavar="RUN|FILE", help="run folder, estimates (.jsonl) or twin.json")
    _add_table(export)
    export.add_argument("--revision", type=_count, metavar="N", help="of the estimate (default: the newest promoted)")
    export.add_argument("--shots", default="", metavar="FILE", help="balls lie as after the last shot of this log")
    export.add_argument(
        "--balls", default="", metavar="IDS", help="e.g. 0-5,8 (default: those of the shots, else 0-15)"
    )
    export.add_argument("--out", default="twin", metavar="DIR", help="(default: %(default)s)")
    export.add_argument("--no-fit", action="store_true", help="do not fit the portable copy, which takes half a minute")
    export.add_argument("--effort", type=float, default=1.0, help="of that fit, less is quicker and worse")
    export.add_argument("--seed", type=_count, default=0, help="of that fit (default: %(default)s)")

    recording = add("import", _import, "make a shot log of shots that were recorded elsewhere; strokes are unknown")
    recording.add_argument("recording", help="shots.jsonl or .jsonl.gz; docs/real-shots.md tells the format")
    recording.add_argument("--out", default="shots.jsonl", help="log to append to (default: %(default)s)")
    recording.add_argument("--table", default="carom", help="name in config/tables, or a path (default: %(default)s)")

    bench = add("bench", _bench, "measure CUE against its targets; docs/benchmarks.md tells what the figures mean")
    bench.add_argument("name", help="of the benchmark: twin, track, fit, real, plan")
    bench.add_argument("file", nargs="?", default="", metavar="FILE", help="recorded shots to score on")
    bench.add_argument("--json", default="", metavar="FILE", help="results; CSV, picture and page go beside it")
    bench.add_argument("--quick", action="store_true", help="small counts, for a first look")
    bench.add_argument("--seed", type=_count, default=0, help="(default: %(default)s)")
    bench.add_argument("--fresh", action="store_true", help="measure again what is done already")
    bench.add_argument("--only", action="append", default=[], metavar="KEY", help="only these figures of the JSON")
    bench.add_argument("--workers", type=_count, default=0, metavar="N", help="processes (default: one per core)")
    bench.add_argument("--real-shots", default="", metavar="FILE", help="recorded shots to score on")
    bench.add_argument("--install-pooltool", action="store_true", help="first install the engine to compare with")
    for name in ("planners", "layouts", "physics", "seeds"):
        bench.add_argument(f"--{name}", default="", metavar="NAME,...", help=f"only these {name} of plan")

    track = add(
        "track", _track, "find table and balls in a picture, or follow them through a video or folder of images"
    )
    track.add_argument("source", metavar="IMAGE|VIDEO|FOLDER", help="one picture, a video file, or a folder of images")
    track.add_argument("--table", default="", help="name in config/tables, or a path; a video needs it")
    track.add_argument("--camera", default="", metavar="FILE", help="calibration (camera_info YAML); else estimated")
    track.add_argument("--out", default="", metavar="DIR", help="folder for what is written")
    track.add_argument(
        "--json", nargs="?", const="-", default="", metavar="FILE", help="write the result as JSON, here if no FILE"
    )
    track.add_argument("--fps", type=float, default=0.0, help="of a folder, or of a video that tells a wrong one")
    track.add_argument("--half-turn", action="store_true", help="turn the table frame by 180 degrees")
    track.add_argument("--no-video", action="store_true", help="write no annotated video")
    track.add_argument("--picture", default="", metavar="FILE", help="of one image: write it with what was found")
    track.add_argument("--twin", default="", metavar="FILE", help="of one image: write the twin over it, with a score")
    track.add_argument("--ball-diameter", type=float, metavar="M", help="of one image: known size of the balls")
    track.add_argument("--marker-side", type=float, metavar="M", help="of one image: side of markers on the frame")
    track.add_argument("--marker-family", default="", metavar="NAME", help="of these markers (default: any)")

    lens = add("calibrate-camera", _calibrate_camera, "measure a camera's lens with a printed board")
    lens.add_argument("--source", default="", metavar="0|VIDEO|FOLDER", help="camera, video file, or folder of images")
    lens.add_argument("--board", default="charuco", choices=("charuco", "chessboard"), help="(default: %(default)s)")
    lens.add_argument("--squares", default="", metavar="COLUMNSxROWS", help="squares of the board (default: 11x8)")
    lens.add_argument(
        "--square", type=float, default=24.0, metavar="MM", help="side of a square (default: %(default)s)"
    )
    lens.add_argument("--print-board", default="", metavar="FILE", help="write the board as PDF or PNG, to scale")
    lens.add_argument("--paper", default="a4", help="a4, a3, letter or WIDTHxHEIGHT in mm (default: %(default)s)")
    lens.add_argument("--out", default="", metavar="FILE", help="calibration to write (camera_info YAML)")
    lens.add_argument("--name", default="camera", help="of the camera, in the file (default: %(default)s)")
    lens.add_argument("--views", type=_count, default=40, help="pictures to collect at most (default: %(default)s)")
    lens.add_argument("--rational", action="store_true", help="model for lenses wider than 100 degrees")

    calibrate = add("calibrate", _calibrate, "start a session in a running graph")
    calibrate.add_argument("--instruction", default="Calibrate the twin of this table.", help="one sentence")
    calibrate.add_argument("--shots", type=int, default=12, help="(default: %(default)s)")
    calibrate.add_argument("--held-out-shots", type=int, default=5, help="(default: %(default)s)")
    calibrate.add_argument("--namespace", default="", help="of the graph")
    calibrate.add_argument("--run-dir", default="", help="the graph's run folder, for the report")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        options, rest = _parser().parse_known_args(arguments)
        # argparse takes `launch FILE -p name:=value` for an error; ros2 launch users write it that way.
        stray = [word for word in rest if ":=" not in word or options.command != "launch"]
        if stray:
            return _fail(f"unrecognised argument {' '.join(stray)}; 'cue {options.command} --help' tells more")
        if rest:
            options.arguments = [*options.arguments, *rest]
        return int(options.run_command(options))
    except CueError as error:
        return _fail(error)
    except BrokenPipeError:  # `cue launch -s ... | head`
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
