import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { blocksOf, ROOT } from '#test/docs/pages.ts';
import { clientOf, publishCode, startLocalTarget } from '#test/helpers/platform.ts';
import { temporaryFolder } from '#test/helpers/temporary-folder.ts';

const target = await startLocalTarget();
const client = clientOf(target);
const folder = temporaryFolder('quick-start-');
afterAll(async () => {
  await target.close();
  rmSync(folder, { recursive: true, force: true });
});

const SUMMARIZE = `import json, sys
print(json.dumps({"summary": json.load(sys.stdin)["text"].split(".")[0]}))
`;
await publishCode(client, 'summarize', { 'main.py': SUMMARIZE });
mkdirSync(join(folder, 'node_modules'));
symlinkSync(join(ROOT, 'sdk/js'), join(folder, 'node_modules/agent-platform-sdk'));

const hasPython = spawnSync('python3', ['--version']).status === 0;
const LANGUAGES = [
  { language: 'js', page: 'sdk/js/README.md', program: 'node', file: 'main.mjs' },
  { language: 'python', page: 'sdk/python/README.md', program: 'python3', file: 'main.py' },
];

describe.skipIf(!hasPython).each(LANGUAGES)('the programs of $page (skipped without python3)', (each) => {
  const { language, page, program, file } = each;
  const [call, stream, agent, ...others] = blocksOf(page)
    .filter(({ info }) => info === language)
    .map(({ text }) => text);

  async function run(code: string, key = target.key): Promise<{ stdout: string; stderr: string }> {
    writeFileSync(join(folder, file), code);
    return await promisify(execFile)(program, [file], {
      cwd: folder,
      env: {
        PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
        PYTHONPATH: join(ROOT, 'sdk/python'),
        PLATFORM_API_URL: target.url,
        PLATFORM_API_KEY: key,
      },
    });
  }

  test('are three', () => {
    expect([call, stream, agent].map((code) => typeof code)).toEqual(['string', 'string', 'string']);
    expect(others).toEqual([]);
  });

  test('from outside call an agent, follow its stream, and name an error', async () => {
    expect((await run(call!)).stdout).toMatch(/^[0-9a-f-]{36} One sentence\n$/);
    expect((await run(stream!)).stdout).toBe('One sentence\n');
    expect(await run(call!, 'wrong')).toMatchObject({
      stdout: '',
      stderr: expect.stringMatching(/^UNAUTHORIZED \S.* (\S+\/docs\/errors\/UNAUTHORIZED|null|None)\n$/),
    });
  });

  test('within an agent call another one', async () => {
    const { agent: published } = await publishCode(
      client,
      `caller-${language}`,
      { [file]: agent! },
      {
        runtime: { command: `${program} ${file}` },
        manifest: {
          manifest_version: 1,
          dependencies: [{ id: 'acme/summarize', version: 'v1' }],
          max_hops: 2,
          timeout_ms: 60_000,
        },
      },
    );
    const params = { org: 'acme', agent: published.name, version: 'v1', endpoint: 'run' };
    expect(await client.callAgent({ params, body: {} })).toMatchObject({ data: { summary: 'One sentence' } });
  });
});
