import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { clientOf, type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, signedInAt, tempFolder } from './command-line.ts';

let target: LocalTarget;
let origin: string;
const replay = (options: readonly string[], cwd?: string) =>
  commandLine(['replay', origin.slice(0, 8), ...options], signedInAt(target, { cwd }));

beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  const client = clientOf(target);
  const { id: workspace_id } = await client.getOrg({});
  await client.putSecret({ params: { workspace_id }, body: { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-test' } });
  // There are no such tools, so no sandbox is needed.
  const look = { toolCalls: [{ name: 'look', input: {} }] };
  const submit = { toolCalls: [{ name: 'submit_result', input: { result: 'done' } }] };
  target.llm.script({ rules: [{ marker: 'Look twice.', turns: [look, look, submit] }] });
  const loop = { name: 'looking', type: 'agent', description: 'looks', prompt: 'Look twice.', durable: true } as const;
  await client.createAgent({ body: { ...loop, required_secrets: [] } });
  const ran = await commandLine(['run', 'looking'], signedInAt(target));
  origin = (await client.getRun({ params: { workspace_id, run_id: ran.json.metadata.request_id } })).id;
});
afterAll(() => target?.close());

test('a run begins again from a turn, and its result is printed', async () => {
  const cwd = tempFolder();
  writeFileSync(join(cwd, 'result.txt'), 'a new result');
  writeFileSync(join(cwd, 'message.txt'), 'Look closer.\n');
  const options = ['--from-turn', '3', '--message-file', 'message.txt', '--tool-result', '2.1=result.txt'];
  const again = await replay(options, cwd);
  expect(again).toMatchObject({ status: 0, json: { data: { result: 'done' }, metadata: { version: 'v1' } } });
  const { text } = target.llm.requests.at(-1)!;
  expect(text).toContain('Look closer.');
  expect(text).toContain('a new result');
  const short = again.json.run_id.slice(0, 8);
  expect(again.stderr).toContain(`Run ${short} begins.`);
});

test('with --detach it prints the id alone', async () => {
  const begun = await replay(['--from-turn', '1', '--message', 'Look at once.', '--detach']);
  expect(begun).toMatchObject({ status: 0, json: { replay_of_run_id: origin, status: 'queued' } });
});

test.each([
  [['--message', 'x'], 'require --from-turn'],
  [['--detach'], 'require --from-turn'],
  [['--from-turn', 'x'], 'must be the number of a turn'],
  [['--from-turn', '0'], 'must be the number of a turn'],
  [['--from-turn', '2', '--tool-result', '1=result.txt'], 'must be turn.call=file'],
  [['--from-turn', '2', '--tool-result', '1.1=missing.txt'], 'missing.txt cannot be read'],
])('%j is a mistake of the command', async (options, message) => {
  expect(await replay(options)).toMatchObject({ status: 5, stderr: expect.stringContaining(message) });
});

test('what the platform refuses names the member', async () => {
  const refused = await replay(['--from-turn', '9']);
  expect(refused.status).not.toBe(0);
  expect(refused.stderr).toContain('body.from_turn: the run');
});
