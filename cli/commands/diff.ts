import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { diff as compareLines, isDeepStrictEqual } from 'node:util';
import { type AgentSource, readSource } from '../publishing/agent-source.ts';
import type { Cli, Configure } from '../shared/cli.ts';
import { printable, textOf } from '../shared/output.ts';

interface MemberChange {
  readonly member: string;
  readonly from?: unknown;
  readonly to?: unknown;
}

interface FileChange {
  readonly path: string;
  /** `null` if the file does not exist. */
  readonly from_sha256: string | null;
  readonly to_sha256: string | null;
}

/** Comparison time grows with the square of the number of lines. */
const MAX_LINES = 1_000;
const MAX_SHOWN_BYTES = 200_000;

const diff: Configure = (command, cli) => {
  command
    .argument('<from>', 'Agent or version: agent, agent@v2, org/agent or org/agent@v2')
    .argument('<to>', 'Version to compare with, in the same format')
    .addHelpText('after', '\nExample:\n  $ platform diff hello@v1 hello@v2')
    .action(async (a, b) => {
      const [from, to] = await Promise.all([readSource(cli, a), readSource(cli, b)]);
      const manifest = membersThatDiffer(from.manifest, to.manifest);
      const files = filesThatDiffer(from, to);
      const same = manifest.length === 0 && files.length === 0;
      cli.output.result({ from: from.agent, to: to.agent, same, manifest, files }, () => {
        if (same) return `${from.agent} and ${to.agent} are identical.`;
        const lines = manifest.flatMap((change) => [
          ...('from' in change ? [removed(cli, `${change.member}: ${textOf(change.from)}`)] : []),
          ...('to' in change ? [added(cli, `${change.member}: ${textOf(change.to)}`)] : []),
        ]);
        const heading = (path: string) => cli.output.style('bold', printable(path));
        return [
          ...(lines.length > 0 ? [heading('agent.json'), ...lines] : []),
          ...files.flatMap(({ path }) => [
            heading(path),
            ...linesThatDiffer(cli, textAt(from, path), textAt(to, path)),
          ]),
        ].join('\n');
      });
    });
};

const removed = (cli: Cli, text: string): string => cli.output.style('red', `- ${text}`);
const added = (cli: Cli, text: string): string => cli.output.style('green', `+ ${text}`);

function membersThatDiffer(from: AgentSource['manifest'], to: AgentSource['manifest']): MemberChange[] {
  return [...new Set([...Object.keys(from), ...Object.keys(to)])]
    .filter((member) => !isDeepStrictEqual(from[member], to[member]))
    .map((member) => ({
      member,
      ...(member in from && { from: from[member] }),
      ...(member in to && { to: to[member] }),
    }));
}

function filesThatDiffer(from: AgentSource, to: AgentSource): FileChange[] {
  const hash = ({ files }: AgentSource, path: string): string | null => {
    const file = files.get(path);
    return file === undefined ? null : createHash('sha256').update(file.content).digest('hex');
  };
  return [...new Set([...from.files.keys(), ...to.files.keys()])]
    .sort()
    .map((path) => ({ path, from_sha256: hash(from, path), to_sha256: hash(to, path) }))
    .filter(({ from_sha256, to_sha256 }) => from_sha256 !== to_sha256);
}

/** Returns the text of a file, or `undefined` if it is too large or binary. A missing file is empty. */
function textAt({ files }: AgentSource, path: string): string | undefined {
  const content = files.get(path)?.content ?? new Uint8Array();
  const isShown = content.byteLength <= MAX_SHOWN_BYTES && isUtf8(content) && !content.includes(0);
  return isShown ? Buffer.from(content).toString() : undefined;
}

function linesThatDiffer(cli: Cli, from: string | undefined, to: string | undefined): string[] {
  if (from === undefined || to === undefined) return ['  (files differ)'];
  const [before, after] = [from, to].map((text) => (text === '' ? [] : text.replace(/\n$/, '').split('\n')));
  if (Math.max(before!.length, after!.length) > MAX_LINES) return ['  (files differ)'];
  // Unlike other tools, `diff` returns 1 for lines that only the first argument has.
  return compareLines(before!, after!).flatMap(([kind, line]) => {
    if (kind === 0) return [];
    return kind > 0 ? [removed(cli, printable(line))] : [added(cli, printable(line))];
  });
}

export default diff;
