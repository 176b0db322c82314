import { afterAll, beforeAll, expect, test } from 'vitest';
import { clientOf, type LocalTarget, startLocalTarget } from '../helpers/platform.ts';
import { commandLine, type Settings, signedInAt } from './command-line.ts';

let target: LocalTarget;
beforeAll(async () => {
  target = await startLocalTarget({ PLATFORM_WORKSPACE: 'main' });
  for (const prompt of ['One.', 'Two.', 'Three.'])
    await clientOf(target).createAgent({ body: { name: 'hello', type: 'prompt', description: 'x', prompt } });
});
afterAll(() => target?.close());

const platform = (line: string | readonly string[], settings?: Settings) =>
  commandLine(typeof line === 'string' ? line.split(' ') : line, signedInAt(target, settings));
const outcome = async (line: string | readonly string[], settings?: Settings) => {
  const { status, stdout, stderr } = await platform(line, settings);
  return { status, stdout, text: (JSON.parse(stderr || '{}') as { error?: { message: string } }).error?.message };
};
const words = { columns: 100 };

test('a channel is made, gets a canary, is promoted and rolled back', async () => {
  expect((await platform('channels hello')).json).toEqual({ channels: [] });
  expect(await outcome('promote hello@prod --canary 10')).toMatchObject({
    status: 5,
    text: expect.stringContaining('There is no channel main/hello@prod yet'),
  });
  const made = await platform(['promote', 'hello@prod', 'v1', '--why', 'the first one']);
  expect(made, made.stderr).toMatchObject({ status: 0, json: { name: 'prod', version: 'v1', revision: 1 } });
  const canary = await platform('promote main/hello@prod v2 --canary 10', words);
  expect(canary.stdout, canary.stderr).toBe('main/hello@prod names v1, 10 % on v2.\n');
  expect((await platform('promote hello@prod --canary 20 --min-score 0.7')).json).toMatchObject({
    canary: { percent: 20, min_score: 0.7 },
  });
  expect((await platform('promote hello@prod --canary 25')).json).toMatchObject({
    canary: { version: 'v2', percent: 25 },
  });
  const listed = await platform('channels hello', words);
  expect(listed.stdout).toMatch(/^channel +version +canary +changed \(UTC\)\nprod +v1 +25 % on v2 +20/);
  expect((await platform('promote hello@prod')).json).toMatchObject({ version: 'v2', canary: null });
  expect((await platform('promote hello@prod')).json).toMatchObject({ version: 'v3' });
  const back = await platform(['rollback', 'hello@prod', '--why', 'too slow'], words);
  expect(back.stdout, back.stderr).toBe('main/hello@prod names v2.\n');
  const history = await platform('channels hello@prod', words);
  expect(history.stdout.split('\n').slice(0, 2)).toEqual([
    expect.stringMatching(/^time \(UTC\) +change +names +by +why$/),
    expect.stringMatching(/^20.+ rolled back +v2 .* too slow$/),
  ]);
  expect((await platform('info hello@prod')).json).toMatchObject({ version: 'v2' });
  expect((await platform('rollback hello@prod')).json).toMatchObject({ version: 'v1' });
  expect(await outcome('rollback hello@prod')).toMatchObject({
    status: 1,
    text: expect.stringContaining('no version before it is left'),
  });
});

test.each([
  ['promote hello@prod --min-score 0.7', 5, 'Give --min-score with --canary'],
  ['promote hello@prod --canary 10 --min-score 7', 5, 'Invalid --min-score "7"'],
  ['promote hello', 5, 'Invalid channel "hello": expected agent@channel'],
  ['promote hello@v1', 5, 'Invalid channel "hello@v1"'],
  ['rollback hello@latest', 5, 'Invalid channel "hello@latest"'],
  ['promote hello@Prod', 5, 'Invalid agent "hello@Prod"'],
  ['promote hello@prod v1 --canary many', 5, 'Invalid --canary "many"'],
  ['promote nobody@prod', 4, 'No agent "main/nobody" in the workspace'],
  ['rollback hello@other', 4, 'The agent main/hello has no channel "other".'],
  ['info hello@other', 4, 'No agent "hello@other" in the workspace'],
])('%s is refused', async (line, status, text) => {
  expect(await outcome(line)).toMatchObject({ status, text: expect.stringContaining(text) });
});
