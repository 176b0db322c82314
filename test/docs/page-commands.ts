import { type ExecFileOptions, execFile, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newCardKey } from '#test/helpers/card-key.ts';
import { clientOf, type LocalTarget, startLocalTarget } from '#test/helpers/platform.ts';
import { type Receiver, startReceiver } from '#test/helpers/receiver.ts';
import { compileCacheVariable } from '#test/helpers/temporary-folder.ts';
import { buildPlatform } from '../../scripts/build-package.ts';
import { type Block, blocksOf, COMMAND_PAGES, errorCodeOf, ROOT } from './pages.ts';
import { publishWorld, reportKey } from './world.ts';

const has = (program: string): boolean => spawnSync(program, ['--version']).status === 0;
const canRun = has('curl') && has('python3') && has('bash');

/** Commands that install, deploy or never end are not run from any page, because this may be a developer's machine. */
export const REFUSED = ['npm', 'cdk', 'docker', 'aws'];
const PRELUDE = [
  'set -euo pipefail',
  ...REFUSED.map((name) => `${name}() { echo "${name} is not run by this test: fence it as sh no-run" >&2; exit 1; }`),
  // Replaces npx, which would install missing packages; the CLI is available.
  'npx() { [ "$1" = platform ] || { echo "npx $1 is not run by this test" >&2; exit 1; }; node_modules/.bin/"$@"; }',
];
/** Fails and prints the answer if it is an error. */
const CURL = 'curl() { command curl --fail-with-body -sS "$@"; }';
const MARK = '@@block';
/** Time limit for a page, which starts dozens of small processes on a busy machine. */
const TIMEOUT_MS = 90_000;
/** Pages that show what their commands print; `...` stands for any text. */
const TYPED_PAGES = /^docs\/(tutorials|migrate)\//;

export const blocks = COMMAND_PAGES.flatMap(blocksOf);
/** Tabs of one call: consecutive blocks, each with a language and its tab. */
export const TABS = ['sh tab="curl"', 'sh tab="CLI"', 'python tab="Python"', 'js tab="JavaScript"'];
interface Language {
  readonly info: string;
  readonly program: string;
  /** Name of the file with the tab at this line; 0 for the driver. */
  file(line: number): string;
  /** Program that runs the tabs at these lines in order, and prints values other than text as JSON. */
  driver(lines: readonly number[]): string;
}
const LANGUAGES: readonly Language[] = [
  {
    info: TABS[2]!,
    program: 'python3',
    file: (line) => `tab${line}.py`,
    driver: (lines) =>
      [
        'import builtins, json, runpy',
        'say = print',
        'builtins.print = lambda *a, **k: say(*[v if isinstance(v, str) else json.dumps(v) for v in a], **{"flush": True, **k})',
        ...lines.map(
          (line) => `say("\\n${MARK} ${line}", flush=True)\nrunpy.run_path("tab${line}.py", run_name="__main__")`,
        ),
      ].join('\n'),
  },
  {
    info: TABS[3]!,
    program: 'node',
    file: (line) => `tab${line}.mjs`,
    driver: (lines) =>
      [
        'const { log } = console;',
        'console.log = (...a) => log(...a.map((v) => (typeof v === "string" ? v : JSON.stringify(v))));',
        ...lines.map((line) => `log("\\n${MARK} ${line}");\nawait import("./tab${line}.mjs");`),
      ].join('\n'),
  },
];
export const isShell = (info: string): boolean => info === 'sh' || TABS.slice(0, 2).includes(info);
export const commands = blocks.filter(({ info }) => isShell(info));
export const named = ({ page, line }: Block): string => `${page}:${line}`;

/** Runs the commands and programs of all pages against a local platform, and compares what the pages show. */
export function testPages(): void {
  describe.skipIf(!canRun)('the commands of (skipped without curl, python3 and bash)', { timeout: TIMEOUT_MS }, () => {
    let target: LocalTarget;
    let receiver: Receiver;
    const cardKey = newCardKey();
    let variables: Record<string, string>;
    const built = mkdtempSync(join(tmpdir(), 'platform-cli-'));
    const commandLine = join(built, 'cli.mjs');
    beforeAll(async () => {
      await buildPlatform(built);
      chmodSync(commandLine, 0o755);
      target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main', PLATFORM_A2A_KEY_FILE: cardKey.file });
      receiver = await startReceiver();
      await publishWorld(target);
      const { id } = await clientOf(target).getOrg({});
      variables = {
        PLATFORM_API_KEY: target.key,
        PLATFORM_API_URL: target.url,
        PLATFORM_GATEWAY_URL: target.url,
        PLATFORM_DATA: target.dataFolder,
        PLATFORM_SERVICE_KEY: await reportKey(target),
        PYTHONPATH: join(ROOT, 'sdk/python'),
        api: target.url,
        auth: `Authorization: Bearer ${target.key}`,
        ws: id,
      };
    }, TIMEOUT_MS);
    afterAll(async () => {
      await target?.close();
      await receiver?.close();
      cardKey.remove();
      rmSync(built, { recursive: true });
    });

    const pages = COMMAND_PAGES.filter((page) =>
      blocks.some((block) => block.page === page && (isShell(block.info) || TABS.includes(block.info))),
    );
    test.concurrent.each(pages)('%s succeed in its order, and answer what it shows', async (page) => {
      const own = blocksOf(page);
      const script = own.filter(({ info }) => isShell(info));
      const answers = await run(script, errorCodeOf(page) === undefined);
      for (const language of LANGUAGES) {
        const tabs = own.filter(({ info }) => info === language.info);
        for (const [line, output] of await runTabs(tabs, language)) answers.set(line, output);
      }
      for (const [index, { info, text }] of own.entries()) {
        const before = own[index - 1];
        if (info !== 'text' || before === undefined || !TYPED_PAGES.test(page)) continue;
        expect(answers.get(before.line), named(before)).toEqual(matching(text.trim()));
      }
      const failing = new Set<number>();
      for (const [index, block] of own.entries()) {
        const group = block.info === 'json' ? callBefore(own, index) : [];
        const before = group.find(({ info }) => info === 'sh' || info === TABS[0]);
        if (before === undefined) continue;
        const answer = JSON.parse(answers.get(before.line)!);
        const shown = JSON.parse(block.text);
        for (const other of group.filter((each) => each !== before && answers.has(each.line))) {
          const printed = JSON.parse(answers.get(other.line)!);
          // Programs that call an agent print its data only.
          const isData = !isShell(other.info) && 'data' in shown;
          expect(membersOf(isData ? { data: printed } : printed), named(other)).toEqual(
            expect.arrayContaining(membersOf(shown).filter((member) => !member.startsWith('.metadata'))),
          );
        }
        expect(membersOf(answer), named(block)).toEqual(expect.arrayContaining(membersOf(shown)));
        if (errorCodeOf(page) === undefined) continue;
        failing.add(before.line);
        // Absent where the platform serves no pages.
        const { docs_url = `/docs/errors/${errorCodeOf(page)}`, ...error } = answer.error;
        expect(docs_url).toMatch(new RegExp(`/docs/errors/${errorCodeOf(page)}$`));
        expect({ ...answer, error }, named(block)).toEqual(matching(shown));
      }
      // curl does not fail there.
      if (errorCodeOf(page) !== undefined)
        for (const { line } of script.filter(({ line }) => !failing.has(line)))
          expect(answers.get(line), `${page}:${line}`).not.toMatch(/^\{"error":/);
    });

    const environment = (cwd: string) => ({
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      // Folder of the CLI's profiles.
      XDG_CONFIG_HOME: cwd,
      ...compileCacheVariable(),
      ...variables,
    });

    /** Creates a folder for commands with the files that pages name. */
    async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
      const folder = mkdtempSync(join(tmpdir(), 'platform-docs-'));
      try {
        symlinkSync(join(ROOT, 'examples'), join(folder, 'examples'));
        mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true });
        symlinkSync(join(ROOT, 'sdk/js'), join(folder, 'node_modules/agent-platform-sdk'));
        symlinkSync(commandLine, join(folder, 'node_modules/.bin/platform'));
        writeFileSync(join(folder, 'scan.pdf'), '%PDF-1.7\n');
        return await use(folder);
      } finally {
        rmSync(folder, { recursive: true });
      }
    }

    /** Runs the tabs of a page in one language, each a whole program, in one process. Returns the output of each by its line. */
    async function runTabs(tabs: readonly Block[], { file, program, driver }: Language): Promise<Map<number, string>> {
      if (tabs.length === 0) return new Map();
      const stdout = await inFolder(async (cwd) => {
        for (const { line, text } of tabs) writeFileSync(join(cwd, file(line)), here(text));
        writeFileSync(join(cwd, file(0)), driver(tabs.map(({ line }) => line)));
        return await execute(program, [file(0)], { cwd, env: environment(cwd), timeout: TIMEOUT_MS - 5000 });
      });
      return outputsOf(stdout);
    }

    /** Runs blocks in one shell and folder. Returns the output of each block by its line. */
    async function run(script: readonly Block[], mayNotFail: boolean): Promise<Map<number, string>> {
      const text = script.flatMap(({ line, text: block }) => [`printf '\\n${MARK} ${line}\\n'`, here(block)]);
      const lines = [...PRELUDE, ...(mayNotFail ? [CURL] : []), ...text].join('\n');
      const options = { timeout: TIMEOUT_MS - 5000 };
      const stdout = await inFolder((cwd) =>
        execute('bash', ['--norc', '--noprofile', '-c', lines], { cwd, env: environment(cwd), ...options }),
      );
      return outputsOf(stdout);
    }

    /** Replaces the addresses on the pages with the platform under test and a local receiver. */
    const here = (text: string): string =>
      text
        .replaceAll('http://127.0.0.1:4280', target.url)
        .replaceAll(/https:\/\/(hooks|otel)\.example\.com/g, receiver.url);
  });
}

/** Returns what was printed after each mark, by the line in the mark. */
function outputsOf(stdout: string): Map<number, string> {
  const parts = stdout.split(new RegExp(`\\n${MARK} (\\d+)\\n`)).slice(1);
  return new Map(
    parts.flatMap((part, index) => (index % 2 === 0 ? [[Number(part), parts[index + 1]!.trim()] as const] : [])),
  );
}

/** Returns the block that ends directly above the one at `index`, with the tabs beside it. */
function callBefore(blocks: readonly Block[], index: number): Block[] {
  const group: Block[] = [];
  for (let at = index - 1; at >= 0; at--) {
    const block = blocks[at]!;
    if (block.line + lengthOf(block) + 3 < blocks[at + 1]!.line) break;
    if (!TABS.includes(block.info)) return group.length === 0 && block.info === 'sh' ? [block] : group;
    group.unshift(block);
  }
  return group;
}

const lengthOf = ({ text }: Block): number => text.split('\n').length;

async function execute(file: string, args: string[], options: ExecFileOptions): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(file, args, { ...options, encoding: 'utf8' });
    return stdout;
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${file} failed: ${(error as Error).message.slice(0, 200)}\n${stdout}\n${stderr}`);
  }
}

/** Matches an answer with this text; `...` stands for any other text. */
function matching(shown: unknown): unknown {
  if (typeof shown === 'string')
    return expect.stringMatching(new RegExp(`^${shown.split('...').map(RegExp.escape).join('[^]*')}$`));
  if (typeof shown !== 'object' || shown === null) return shown;
  return Object.fromEntries(Object.entries(shown).map(([name, member]) => [name, matching(member)]));
}

/** Returns the paths of an answer's fields, such as `error.code`; `...` in an example stands for more fields. */
function membersOf(value: unknown, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap((element) => membersOf(element, `${path}[]`));
  return Object.entries(value).flatMap(([name, member]) =>
    name === '...' ? [] : [`${path}.${name}`, ...membersOf(member, `${path}.${name}`)],
  );
}
