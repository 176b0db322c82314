import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, test } from 'vitest';
import { blocksOf, ROOT } from '#test/docs/pages.ts';
import { clientOf, publishCode, request, startLocalTarget } from '#test/helpers/platform.ts';
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
  const [call, stream, agent, steps, warm, ...others] = blocksOf(page)
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

  test('are five', () => {
    expect([call, stream, agent, steps, warm].map((code) => typeof code)).toEqual(Array(5).fill('string'));
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

  test('within an agent stay for further inputs', async () => {
    const manifest = { runtime: { command: `${program} ${file}` }, reuse: 'process' };
    const { agent: published } = await publishCode(client, `warm-${language}`, { [file]: warm! }, manifest);
    const params = { org: 'acme', agent: published.name, version: 'v1', endpoint: 'run' };
    for (const text of ['one', 'one two']) {
      expect(await client.callAgent({ params, body: { text } })).toMatchObject({
        data: { words: text.split(' ').length },
      });
    }
  });

  test('within an agent do a step, and go on when a question is answered', { timeout: 60_000 }, async () => {
    const print = { js: 'console.log(JSON.stringify(answer));', python: 'import json; print(json.dumps(answer))' };
    const name = `asks-${language}`;
    const code = `${steps}${print[language as keyof typeof print]}\n`;
    const manifest = { runtime: { command: `${program} ${file}` }, durable: { steps: true } };
    await publishCode(client, name, { [file]: code }, manifest);
    const headers = { prefer: 'respond-async' };
    const called = await request(target, 'POST', `/acme/${name}/v1/run`, { key: target.key, json: {}, headers });
    const params = { workspace_id: (await client.listWorkspaces({})).workspaces[0]!.id, run_id: called.body.run_id };
    const until = (status: string) =>
      expect.poll(async () => (await client.getRun({ params })).status, { timeout: 30_000 }).toBe(status);
    await until('waiting');
    const [asked] = (await client.listApprovals({ params, query: { run_id: params.run_id } })).approvals;
    expect(asked).toMatchObject({ question: 'Refund 120 dollars?', options: ['yes', 'no'] });
    const decision = { decision: 'answer', answer: 'yes', for: 'this' } as const;
    await client.decideApproval({ params: { ...params, approval_id: asked!.id }, body: decision });
    await until('completed');
    expect((await client.getRun({ params })).output_data).toBe('yes');
  });
});
