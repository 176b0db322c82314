import { setTimeout } from 'node:timers/promises';
import { beforeAll, describe, expect, test } from 'vitest';
import { needsModel, request, type Target } from '#test/helpers/platform.ts';
import type { ScriptedTurn } from '#test/helpers/scripted-llm/turns.ts';
import type { TestUser } from '#test/helpers/users.ts';
import { expectError, expectOk } from '../expect.ts';

const bash = (command: string, more: ScriptedTurn = {}): ScriptedTurn => ({
  toolCalls: [{ name: 'bash', input: { command } }],
  ...more,
});
const submit: ScriptedTurn = { toolCalls: [{ name: 'submit_result', input: { result: 'written' } }] };

/** Replays from a turn of a durable loop (`docs/interface/branches.md`). */
export function branchesSuite(target: () => Target): void {
  let user: TestUser;
  let origin: string;

  const send = (method: string, path: string, json?: unknown) =>
    request(target(), method, `/workspaces/${user.workspaceId}${path}`, { key: user.key, json });
  const ended = async (runId: string) => {
    for (;;) {
      const run = expectOk(await send('GET', `/runs/${runId}`));
      if (run.status !== 'running') return run;
      await setTimeout(200);
    }
  };
  const publish = (prompt: string, turns: readonly ScriptedTurn[]) => {
    const manifest = { name: 'branching', type: 'agent', description: 'branches', required_secrets: [], durable: true };
    const json = { ...manifest, prompt: `${prompt} [[llm ${JSON.stringify(turns)}]]` };
    return request(target(), 'POST', '/agents', { key: user.key, json });
  };
  const replay = (json: unknown) => send('POST', `/runs/${origin}/replay`, json);
  /** Returns what the model was asked last that contains a text. */
  const asked = (text: string) => target().llm.requests.findLast((each) => each.text.includes(text))!.text;

  beforeAll(async () => {
    needsModel(target());
    user = await target().addUser('branches');
    const secret = { name: 'ANTHROPIC_API_KEY', value: 'sk-ant-branches-0123456789' };
    expectOk(await send('PUT', '/secrets', secret));
    const turns = [
      bash('echo first-$((40 + 2))', { thinking: 'I begin.' }),
      bash('echo second-$((40 + 2))', { thinking: 'I go on.' }),
      submit,
    ];
    expectOk(await publish('Branch as version one.', turns), 201);
    const answer = await request(target(), 'POST', '/branches/branching/v1/run', {
      ...{ key: user.key, json: { what: 'x' }, headers: { prefer: 'respond-async' } },
    });
    origin = expectOk(answer, 202).run_id;
    expect(await ended(origin)).toMatchObject({ status: 'completed', has_turns: true, branch: null });
  });

  describe('branches', () => {
    test('a run begins again from a turn with a message, and is listed with its origin', async () => {
      const { run_id, replay_of_run_id } = expectOk(await replay({ from_turn: 3, message: 'Say more.' }), 202);
      expect(replay_of_run_id).toBe(origin);
      const branch = { from_turn: 3, changed: ['message'] };
      const run = await ended(run_id);
      expect(run).toMatchObject({
        ...{ status: 'completed', replay_of_run_id: origin, branch, has_turns: true, input_data: { what: 'x' } },
        output_data: { result: 'written' },
      });
      expect(run.input_tokens).toBeLessThan((await ended(origin)).input_tokens);
      const text = asked('Say more.');
      for (const each of ['first-42', 'second-42', 'continues in a new sandbox']) expect(text).toContain(each);
      const { branches } = expectOk(await send('GET', `/runs/${origin}/branches`));
      expect(branches).toContainEqual(expect.objectContaining({ id: run_id, status: 'completed', ...branch }));
    });

    test('the model sees another result, and none of the thoughts that followed the recorded one', async () => {
      const tool_results = [{ turn: 1, call: 1, text: 'third-result' }];
      const { run_id } = expectOk(await replay({ from_turn: 3, tool_results }), 202);
      // The model refuses thoughts that follow changed content.
      expect(await ended(run_id)).toMatchObject({ status: 'completed', branch: { changed: ['tool_results'] } });
      const text = asked('third-result');
      expect(text).toContain('second-42');
      expect(text).not.toContain('first-42');
    });

    test('another version and another model continue it', async () => {
      expectOk(await publish('Branch as version two.', [bash('true'), bash('true'), submit]), 201);
      const json = { from_turn: 2, agent_version: 'v2', model: 'anthropic/claude-haiku-4-5' };
      const { run_id } = expectOk(await replay(json), 202);
      expect(await ended(run_id)).toMatchObject({
        ...{ status: 'completed', agent_version: 'v2', llm_model: 'claude-haiku-4-5' },
        branch: { from_turn: 2, changed: ['model', 'version'] },
      });
      const text = asked('Branch as version two.');
      expect(text).toContain('first-42');
      expect(text).not.toContain('Branch as version one.');
    });

    test('the files of the sandbox come along if they were kept before the turn', async () => {
      const notes = [1, 2, 3, 4, 5].map((note) => bash(`echo ${note} >> log.txt; sleep 0.6`));
      const turns = [...notes, bash('echo "lines: $(wc -l < log.txt)"'), submit];
      expectOk(await publish('Branch with files.', turns), 201);
      const call = { key: user.key, json: {}, headers: { prefer: 'respond-async' } };
      const { run_id } = expectOk(await request(target(), 'POST', '/branches/branching/latest/run', call), 202);
      expect(await ended(run_id)).toMatchObject({ status: 'completed' });
      const from = async (from_turn: number, message: string) => {
        const begun = expectOk(await send('POST', `/runs/${run_id}/replay`, { from_turn, message }), 202);
        expect(await ended(begun.run_id)).toMatchObject({ status: 'completed' });
        return asked(message);
      };
      const later = await from(6, 'With the notes.');
      expect(later).toContain('Your files are in it.');
      expect(later).toContain('lines: 5');
      const early = await from(4, 'Without the notes.');
      expect(early).toContain('The files that you wrote are gone.');
      expect(early).toContain('lines: 2');
    });

    test('turns, calls and members that do not fit are refused', async () => {
      expectError(await replay({ from_turn: 4 }), 422, 'UNPROCESSABLE', 'body.from_turn: the run');
      const no = (turn: number, call: number) => replay({ from_turn: 3, tool_results: [{ turn, call, text: 'x' }] });
      expectError(await no(2, 2), 422, 'UNPROCESSABLE', 'body.tool_results.0.call: turn 2 has 1 call');
      expectError(await no(3, 1), 400, 'INVALID_INPUT', 'body.tool_results.0.turn');
      expectError(await replay({ from_turn: 2, input: {} }), 400, 'INVALID_INPUT', 'body.input');
      expectError(await replay({ message: 'x' }), 400, 'INVALID_INPUT', 'body.message: requires from_turn');
      expectError(await replay({ from_turn: 2, model: 'ollama/x y' }), 400, 'INVALID_INPUT', 'body.model');
    });

    test('callers of an agent of another workspace change no results of its tools', async () => {
      const author = await target().addUser('branch-author');
      const shared = { name: 'shared', type: 'agent', description: 'shared', required_secrets: [], is_public: true };
      const prompt = `Branch for others. [[llm ${JSON.stringify([bash('echo checked'), submit])}]]`;
      const json = { ...shared, durable: true, prompt };
      expectOk(await request(target(), 'POST', '/agents', { key: author.key, json }), 201);
      const call = { key: user.key, json: {}, headers: { prefer: 'respond-async' } };
      const { run_id } = expectOk(await request(target(), 'POST', '/branch-author/shared/v1/run', call), 202);
      await ended(run_id);
      const tool_results = [{ turn: 1, call: 1, text: 'allowed' }];
      const refused = await send('POST', `/runs/${run_id}/replay`, { from_turn: 2, tool_results });
      expectError(refused, 403, 'FORBIDDEN', 'body.tool_results');
      const begun = expectOk(await send('POST', `/runs/${run_id}/replay`, { from_turn: 2, message: 'Go on.' }), 202);
      expect(await ended(begun.run_id)).toMatchObject({ status: 'completed' });
      const path = `/workspaces/${author.workspaceId}/runs/${run_id}/replay`;
      const foreign = await request(target(), 'POST', path, { key: author.key, json: { from_turn: 2 } });
      expectError(foreign, 404, 'NOT_FOUND');
    });

    test('a run that has not ended, or is not durable, has no branches', async () => {
      expectOk(await publish('Branch slowly.', [bash('sleep 60')]), 201);
      const call = (name: string) =>
        request(target(), 'POST', `/branches/${name}/latest/run`, {
          ...{ key: user.key, json: {}, headers: { prefer: 'respond-async' } },
        });
      const { run_id } = expectOk(await call('branching'), 202);
      const path = `/runs/${run_id}`;
      expectError(await send('POST', `${path}/replay`, { from_turn: 1 }), 409, 'CONFLICT', 'has not ended');
      expectOk(await send('POST', `${path}/cancel`));
      expect(await ended(run_id)).toMatchObject({ status: 'cancelled' });
      // Its tool has no result.
      expectError(await send('POST', `${path}/replay`, { from_turn: 2 }), 422, 'UNPROCESSABLE', 'only from turn 1');
      const again = expectOk(await send('POST', `${path}/replay`, { from_turn: 1 }), 202);
      expectOk(await send('POST', `/runs/${again.run_id}/cancel`));
      expect(await ended(again.run_id)).toMatchObject({ status: 'cancelled', branch: { from_turn: 1, changed: [] } });
      const prompt = { name: 'plain', type: 'prompt', description: 'answers', prompt: 'Answer. [[llm {}]]' };
      expectOk(await request(target(), 'POST', '/agents', { key: user.key, json: prompt }), 201);
      const { run_id: other } = expectOk(await call('plain'), 202);
      expect(await ended(other)).toMatchObject({ has_turns: false });
      const refused = await send('POST', `/runs/${other}/replay`, { from_turn: 1 });
      expectError(refused, 422, 'UNPROCESSABLE', 'only durable loops keep their turns');
      expectError(await send('GET', `/runs/${crypto.randomUUID()}/branches`), 404, 'NOT_FOUND');
    });
  });
}
