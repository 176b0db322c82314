import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
// @ts-expect-error: the declarations of the package are for its users.
import * as sdk from '../../sdk/js/index.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Types that are plain objects in JavaScript, and clients for programs with and without an event loop. */
const ONLY_PYTHON = ['Answer', 'AsyncPlatform', 'AsyncSession', 'AsyncStream', 'CallContext', 'Run', 'Upload'];
/** Runs in the folder: tsc would use a tsconfig.json of the current folder. */
const tsc = (cwd: string, ...args: string[]) =>
  execFileSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), ...args], { cwd });

function inFolder(work: (folder: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'sdk-package-'));
  try {
    work(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const contents = (folder: string) =>
  Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8')]));

test('the declarations are those of the code (else: npx tsc -p sdk/js)', { timeout: 60_000 }, () => {
  inFolder((folder) => {
    tsc(folder, '-p', join(ROOT, 'sdk/js'), '--outDir', folder);
    expect(contents(join(ROOT, 'sdk/js/types'))).toEqual(contents(folder));
  });
});

test('npm installs it from the repository, for JavaScript and TypeScript', { timeout: 60_000 }, () => {
  inFolder((folder) => {
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    execFileSync('npm', ['install', '--install-links', '--no-audit', '--no-fund', '--offline', join(ROOT, 'sdk/js')], {
      cwd: folder,
    });
    const program = `import { AgentClient, Platform, storage } from 'agent-platform-sdk';
      const client: AgentClient = new AgentClient({ maxHops: 1 });
      const answer = client.call('acme/a@v1', {}, { timeout: 5 });
      async function use(platform: Platform): Promise<number | undefined> {
        for await (const event of platform.stream('acme/a')) if (event.type === 'result') break;
        return (await storage.get('a', 'b'))?.version;
      }
      // @ts-expect-error: an option that there is none of.
      new Platform({ key: '' });
      export { answer, use };

      interface ReportInput { month: string }
      interface ReportOutput { total: number }
      declare module 'agent-platform-sdk/agents' {
        interface Agents { 'acme/report': { input: ReportInput; output: ReportOutput } }
      }
      export async function typed(platform: Platform): Promise<number> {
        // @ts-expect-error: the agent has no such input.
        await platform.call('acme/report', { month: 1 });
        // @ts-expect-error: nor such an output.
        (await platform.call('acme/report', { month: '2026-10' })).data.sum;
        return (await platform.call('acme/report', { month: '2026-10' })).data.total;
      }`;
    writeFileSync(join(folder, 'program.ts'), program);
    tsc(
      folder,
      '--noEmit',
      '--strict',
      '--module',
      'nodenext',
      '--types',
      'node',
      '--typeRoots',
      join(ROOT, 'node_modules/@types'),
      'program.ts',
    );
    const names = execFileSync('node', ['-p', 'Object.keys(require("agent-platform-sdk")).length'], { cwd: folder });
    expect(Number(names)).toBeGreaterThan(10);
    expect(readdirSync(join(folder, 'node_modules/agent-platform-sdk'))).not.toContain('tsconfig.json');
  });
});

test('both have the same version', () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'sdk/js/package.json'), 'utf8'));
  expect(readFileSync(join(ROOT, 'sdk/python/pyproject.toml'), 'utf8')).toContain(`version = "${version}"`);
});

test('both have the same names, in the style of each language', () => {
  const program = `import agent_platform as sdk, json
names = [name for name in sdk.__all__ if name not in ${JSON.stringify(ONLY_PYTHON)}]
of = lambda kind: sorted(name for name in vars(kind) if not name.startswith("_"))
print(json.dumps([sorted(names), of(sdk.Platform), of(sdk.AsyncPlatform), of(sdk.AgentClient), of(sdk.Stream), of(sdk.Session), of(sdk.AsyncSession),
    {name: getattr(sdk, name).__all__ if name == "storage" else of(getattr(sdk, name)) for name in ("storage",)}]))`;
  const env = { ...process.env, PYTHONPATH: join(ROOT, 'sdk/python') };
  const [names, platform, asyncPlatform, agentClient, stream, session, asyncSession, modules] = JSON.parse(
    execFileSync('python3', ['-c', program], { env, encoding: 'utf8' }),
  );
  const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const own = (object: object) => Object.getOwnPropertyNames(object);
  const methodsOf = (kind: { readonly prototype: object }) =>
    own(kind.prototype)
      .filter((name) => name !== 'constructor')
      .map(snake)
      .sort();
  expect(Object.keys(sdk).sort()).toEqual(names);
  expect(methodsOf(sdk.Platform)).toEqual(platform);
  expect(asyncPlatform).toEqual(platform);
  expect(methodsOf(sdk.Session)).toEqual(session);
  expect(asyncSession).toEqual(session);
  // Names with `_sync` are those without an event loop; the request of JavaScript is static, too.
  expect([...methodsOf(sdk.AgentClient), 'call_sync', 'from_request', 'later_sync'].sort()).toEqual(agentClient);
  expect(own(sdk.AgentClient)).toContain('fromRequest');
  // A property in Python, a field of each stream in JavaScript.
  expect([...methodsOf(sdk.Stream), 'run_id']).toEqual(expect.arrayContaining(stream));
  expect(Object.keys(sdk.storage).map(snake).sort()).toEqual(
    modules.storage.filter((name: string) => name !== 'Document').sort(),
  );
});
