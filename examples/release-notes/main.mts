// Node removes the types, so there is no build step.
import { text } from 'node:stream/consumers';

type Bump = 'major' | 'minor' | 'patch';
interface Commit {
  readonly kind: string;
  readonly scope?: string;
  readonly subject: string;
  readonly isBreaking: boolean;
}

/** Section of each kind of the Conventional Commits. Other known kinds are of no interest to readers. */
const SECTIONS: Readonly<Record<string, string>> = {
  feat: 'New',
  fix: 'Fixed',
  perf: 'Faster',
  revert: 'Reverted',
  docs: 'Documentation',
  other: 'Other changes',
};
const LEFT_OUT = ['chore', 'ci', 'build', 'test', 'style', 'refactor', 'merge'];
const LINE = /^(?:[0-9a-f]{7,64}\s+)?(?:\([^)]*\)\s+)?(\S.*)$/;
const CONVENTIONAL = /^([a-z]+)(?:\(([^()]+)\))?(!)?:\s+(\S.*)$/;
const VERSION = /^(\d{1,9})\.(\d{1,9})\.(\d{1,9})$/;

function parseCommit(line: string): Commit {
  const subject = LINE.exec(line)![1]!;
  if (/^Merge (branch|pull request|remote-tracking)/.test(subject))
    return { kind: 'merge', subject, isBreaking: false };
  const [, kind, scope, mark, rest] = CONVENTIONAL.exec(subject) ?? [];
  if (kind === undefined || !(Object.hasOwn(SECTIONS, kind) || LEFT_OUT.includes(kind))) {
    return { kind: 'other', subject, isBreaking: false };
  }
  return { kind, scope, subject: rest!, isBreaking: mark !== undefined };
}

// Subjects come from many authors: they must not become links, markup or HTML.
const escaped = (words: string): string => words.replace(/[\\`*_[\]<>]/g, '\\$&');

const entry = ({ scope, subject }: Commit): string => {
  const sentence = subject[0]!.toUpperCase() + subject.slice(1).replace(/\.$/, '');
  return `- ${scope === undefined ? '' : `**${escaped(scope)}:** `}${escaped(sentence)}`;
};

function increased(version: string, bump: Bump): string {
  const [major, minor, patch] = VERSION.exec(version)!.slice(1).map(Number) as [number, number, number];
  if (bump === 'major') return `${major + 1}.0.0`;
  return bump === 'minor' ? `${major}.${minor + 1}.0` : `${major}.${minor}.${patch + 1}`;
}

export function releaseNotes({ log, version }: { log: string; version?: string }) {
  const commits = log
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter(Boolean)
    .map(parseCommit);
  if (commits.length === 0) throw new Error('log: must have at least one commit, one a line; run `git log --oneline`');
  const breaking = commits.filter(({ isBreaking }) => isBreaking);
  const sections = [['Breaking changes', breaking] as const];
  for (const [kind, title] of Object.entries(SECTIONS)) {
    sections.push([title, commits.filter((commit) => commit.kind === kind && !commit.isBreaking)]);
  }
  const bump: Bump = breaking.length > 0 ? 'major' : commits.some(({ kind }) => kind === 'feat') ? 'minor' : 'patch';
  const next = version === undefined ? undefined : increased(version, bump);
  const shown = sections.filter(([, entries]) => entries.length > 0);
  const body = shown.map(([title, entries]) => `### ${title}\n\n${entries.map(entry).join('\n')}`);
  return {
    markdown: [`## ${next ?? 'Next version'}`, ...(body.length > 0 ? body : ['No changes that readers notice.'])].join(
      '\n\n',
    ),
    bump,
    ...(next !== undefined && { next_version: next }),
    commits: commits.length,
    left_out: commits.length - shown.reduce((sum, [, entries]) => sum + entries.length, 0),
  };
}

function checked(input: unknown): { log: string; version?: string } {
  const { log, version } = (input ?? {}) as Record<string, unknown>;
  if (typeof log !== 'string') throw new Error('log: must be the text that `git log --oneline` prints');
  if (version === undefined) return { log };
  if (typeof version === 'string' && VERSION.test(version)) return { log, version };
  throw new Error('version: must be three numbers with dots, such as 1.4.2');
}

if (import.meta.main) {
  try {
    console.log(JSON.stringify(releaseNotes(checked(JSON.parse(await text(process.stdin))))));
  } catch (error) {
    const message = error instanceof SyntaxError ? 'the input must be JSON' : (error as Error).message;
    console.log(JSON.stringify({ error: message }));
    process.exitCode = 1;
  }
}
