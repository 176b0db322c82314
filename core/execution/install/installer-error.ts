import { shortenTo } from '#core/runs/masking/masking.ts';
import { failureLine } from '../engines/program/failure-line.ts';

/** Maximum length of the output quoted in an installation's error. */
const QUOTED_BYTES = 4 * 1024;
/** Length of the tail that is searched: the installer's own line is near the end. */
const SEARCHED_CHARACTERS = 64 * 1024;
const MAX_LINE_CHARACTERS = 500;

/** pip prints the output of a build between "[12 lines of output]" and its end mark. */
const BUILD_OUTPUT = /^ *╰─> \[\d+ lines? of output\]$/;
const BUILD_OUTPUT_ENDS = /^ *\[end of output\]$/;
const PIP_ERROR = /^ERROR: /;
/** Line before {@link PIP_NOT_FOUND}; the Python that the last of these versions needs. */
const PIP_OTHER_PYTHON =
  /^ERROR: Ignored the following versions that require a different python version: .*Requires-Python ([^;]+)/;
const PIP_NOT_FOUND = /^ERROR: No matching distribution found for /;
/** Summary lines, which follow the line with the cause. */
const PIP_SUMMARY = /^ERROR: (ResolutionImpossible|Failed to build|Failed building|Could not build wheels)/;
const NPM_ERROR = /^npm (?:error|ERR!) ?/;
/** Lines of npm that give a location instead of a cause. */
const NPM_PLACE = /^(?:code|errno|syscall|path|dest|file|signal|command|cwd) |^A complete log of this run|^\s*$/;

/**
 * Describes why pip or npm failed, from its output: first the decisive line (the requirement that pip did not find,
 * npm's
 * own reason, the exception of a build), then the beginning and the end of the output, 4 KB.
 */
export function installerError(output: string): string {
  const text = output.trim();
  const line = decisiveLine(text);
  if (line === undefined || line === text) return line ?? '';
  return `${line}\n\n${shortenTo(QUOTED_BYTES, text)}`;
}

function decisiveLine(text: string): string | undefined {
  const lines = text
    .slice(-SEARCHED_CHARACTERS)
    .split(/\r?\n/)
    .map((line) => line.trimEnd());
  for (const find of [failedBuild, pipLine, npmLine, failureOf]) {
    const line = find(lines)?.trim();
    if (line) return line.length > MAX_LINE_CHARACTERS ? `${line.slice(0, MAX_LINE_CHARACTERS - 1)}…` : line;
  }
  return undefined;
}

const failureOf = (lines: readonly string[]): string | undefined => failureLine(lines.join('\n'));

/** Finds the exception of a package's own build. pip indents the build's output. */
function failedBuild(lines: readonly string[]): string | undefined {
  const end = lines.findLastIndex((line) => BUILD_OUTPUT_ENDS.test(line));
  const start = lines.findLastIndex((line, index) => index < end && BUILD_OUTPUT.test(line));
  if (start < 0) return undefined;
  const indent = lines[end]!.indexOf('[');
  const line = failureOf(lines.slice(start + 1, end).map((each) => each.slice(indent)));
  const step = lines.slice(0, start).findLast((each) => /^ *× /.test(each));
  return line && (step === undefined ? line : `${line} (${step.trim().slice(2).replace(/\.$/, '')})`);
}

function pipLine(lines: readonly string[]): string | undefined {
  const said = lines.filter((line) => PIP_ERROR.test(line));
  const line = said.findLast((each) => !PIP_SUMMARY.test(each)) ?? said.at(-1);
  if (line === undefined || !PIP_NOT_FOUND.test(line)) return line;
  const needed = said.map((each) => PIP_OTHER_PYTHON.exec(each)?.[1]).find((each) => each !== undefined);
  return needed === undefined
    ? line
    : `${line}. Other versions need Python ${needed.trim()}: environment.python_version in agent.json asks for another one.`;
}

function npmLine(lines: readonly string[]): string | undefined {
  const said = lines.filter((line) => NPM_ERROR.test(line)).map((line) => line.replace(NPM_ERROR, ''));
  if (said.length === 0) return undefined;
  const reasons = said.filter((line) => !NPM_PLACE.test(line));
  const line = said.includes('command failed') ? failureOf(reasons) : reasons[0];
  return line && `npm error ${line}`;
}
