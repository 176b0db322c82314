import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
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
      export { answer, use };`;
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
