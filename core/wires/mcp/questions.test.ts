import { describe, expect, test } from 'vitest';
import { findWorkspace } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { settled } from '#test/helpers/durable-histories.ts';
import { addUser } from '#test/helpers/users.ts';
import { type Call, DONE, HOUR_MS, PAY, pay, waitingLoop } from '#test/helpers/waiting-loop.ts';
import { openQuestions } from '../questions.ts';
import { answerInputs, inputRequestsOf } from './input-requests.ts';
import { requestStateOf, runOfState, type StateOwner } from './request-state.ts';

const question = (input: object): Call => ({ name: 'ask_human', input: { question: 'Which?', ...input } });

/** A run that asks, and what answers it. */
async function asking(...calls: readonly Call[]) {
  const agent = { custom_tools: [{ ...PAY, approval: 'always' }], loop: { tools: ['ask_human'] } };
  const loop = await waitingLoop(agent, [calls, [DONE]]);
  const runId = await loop.call();
  const workspace = (await findWorkspace(loop.deps, loop.workspaceId))!;
  const caller: Caller = { userId: loop.user.userId, keyId: loop.user.keyId, workspace, role: 'owner' };
  const open = () => openQuestions(loop.deps, { workspaceId: workspace.id, runId });
  return {
    ...{ ...loop, runId, workspace, caller, open },
    requests: async () => inputRequestsOf(await open()),
    async answer(responses: { readonly [key: string]: unknown }) {
      const work = answerInputs(loop.deps, { caller, workspace, address: undefined }, await open(), responses);
      return settled(loop.deps, work);
    },
  };
}
const accept = (content: object) => ({ action: 'accept', content });

describe('a question as an elicitation', () => {
  test.each([
    [{}, { answer: { type: 'string' } }],
    [{ options: ['red', 'blue'] }, { answer: { type: 'string', enum: ['red', 'blue'] } }],
    [
      { schema: { type: 'integer', minimum: 1, multipleOf: 2 } },
      // What a form cannot say is left out.
      { answer: { type: 'integer', minimum: 1 } },
    ],
    [
      { schema: { type: 'object', properties: { name: { type: 'string', maxLength: 9 } }, required: ['name'] } },
      { name: { type: 'string', maxLength: 9 } },
    ],
    [
      { schema: { type: 'object', properties: { names: { type: 'array', items: { type: 'string' } } } } },
      { answer: { type: 'string', description: expect.stringContaining('JSON that matches {') } },
    ],
  ])('%j', async (input, properties) => {
    const { requests, runId } = await asking(question(input));
    expect(await requests()).toMatchObject({
      [`${runId}.1.1`]: {
        method: 'elicitation/create',
        params: { mode: 'form', message: 'Which?', requestedSchema: { type: 'object', properties } },
      },
    });
  });

  test('shows what a call would do, without control characters of a model', async () => {
    const { requests, runId } = await asking(pay(5, '\u202eann'), question({ question: 'Clear\u001b[2J?' }));
    const asked = await requests();
    const messages = Object.values(asked).map(({ params }) => (params as { readonly message: string }).message);
    expect(Object.keys(asked)).toEqual([`${runId}.1.1`, `${runId}.1.2`]);
    expect(messages[0]).toMatch(/^payer asks to call pay with these arguments:\n/);
    expect(messages[0]).toContain('\\u202eann');
    expect(messages[1]).toBe('Clear\\u001b[2J?');
  });
});

describe('an answer', () => {
  test('decides a call and a question, and the run continues with both', async () => {
    const { answer, runId, next, paid, results } = await asking(pay(5), question({ schema: { type: 'integer' } }));
    const closed = await answer({
      [`${runId}.1.1`]: accept({ approve: true }),
      [`${runId}.1.2`]: accept({ answer: 7 }),
      other: accept({ answer: 8 }),
    });
    expect(closed).toBe(0);
    await next();
    expect(paid).toEqual(['ann 5']);
    expect(results()).toEqual(['paid', '7']);
  });

  test('refuses a call, and leaves a question without an answer', async () => {
    const { answer, runId, next, paid, results } = await asking(pay(5), question({}));
    await answer({
      [`${runId}.1.1`]: accept({ approve: false, reason: 'no' }),
      [`${runId}.1.2`]: { action: 'decline' },
    });
    await next();
    expect(paid).toEqual([]);
    expect(results()).toEqual([expect.stringContaining('The reason: no'), expect.stringContaining('Nobody answered')]);
  });

  test('of one question leaves the others open, and a closed dialog decides nothing', async () => {
    const { answer, open, runId } = await asking(question({}), question({}), question({}));
    expect(await answer({ [`${runId}.1.2`]: accept({ answer: 'b' }), [`${runId}.1.3`]: { action: 'cancel' } })).toBe(1);
    expect((await open()).map(({ call }) => call)).toEqual([1, 3]);
  });

  test('is the JSON of a text where a form cannot show its schema', async () => {
    const schema = { type: 'array', items: { type: 'string' } };
    const { answer, runId, next, results } = await asking(question({ schema }));
    await answer({ [`${runId}.1.1`]: accept({ answer: '["a"]' }) });
    await next();
    expect(results()).toEqual(['["a"]']);
  });

  test.each([
    [undefined, 'must have an "action"'],
    [7, 'must have an "action"'],
    [{ action: 'approve' }, 'must have an "action"'],
    [{ action: 'accept' }, 'must have a "content"'],
    [accept({}), 'content.answer: is required'],
    [accept({ answer: 'x' }), 'body.answer'],
  ])('%j is refused, and decides nothing', async (response, message) => {
    const { answer, open, runId } = await asking(question({ schema: { type: 'integer' } }));
    const error = await answer({ [`${runId}.1.1`]: response }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining(message) });
    expect(await open()).toHaveLength(1);
  });

  test('to an inherited name is none', async () => {
    const { answer, open } = await asking(question({}));
    expect(await answer(JSON.parse('{"__proto__": {"action": "accept"}, "constructor": {"action": "accept"}}'))).toBe(
      0,
    );
    expect(await open()).toHaveLength(1);
  });
});

describe('a request state', () => {
  test('leads to its run, whatever the order of the arguments', async () => {
    const { deps, caller, workspaceId, runId } = await asking(question({}));
    const owner = { caller, workspaceId, tool: 'acme__payer', args: { a: 1, b: { c: 2, d: 3 } } };
    const state = await requestStateOf(deps, owner, runId);
    expect(await runOfState(deps, { ...owner, args: { b: { d: 3, c: 2 }, a: 1 } }, state)).toBe(runId);
  });

  test('of another caller, workspace, tenant, tool or call is refused, and so is a forged one', async () => {
    const { deps, caller, workspaceId, runId } = await asking(question({}));
    const owner: StateOwner = { caller, workspaceId, tool: 'acme__payer', args: {} };
    const state = await requestStateOf(deps, owner, runId);
    const stranger = await addUser(deps, 'stranger');
    const [version, run, nonce, expires, signature] = state.split('.') as [string, string, string, string, string];
    expect(await requestStateOf(deps, owner, runId)).not.toBe(state);
    const cases: readonly (readonly [Partial<StateOwner>, string])[] = [
      [{ caller: stranger }, state],
      [{ workspaceId: stranger.workspaceId }, state],
      [{ tenantId: 'tenant' }, state],
      [{ tool: 'acme__other' }, state],
      [{ args: { a: 1 } }, state],
      [{}, [version, crypto.randomUUID(), nonce, expires, signature].join('.')],
      [{}, [version, run, nonce, Number(expires) + 1, signature].join('.')],
      [{}, [version, run, nonce, expires, `${signature[0] === 'A' ? 'B' : 'A'}${signature.slice(1)}`].join('.')],
      [{}, `${state}x`],
      [{}, `${state}-TAMPERED`],
      [{}, ''],
      [{}, 'x'.repeat(100_000)],
    ];
    for (const [other, given] of cases) {
      expect(await runOfState(deps, { ...owner, ...other }, given)).toBeUndefined();
    }
    await deps.clock.advance(25 * HOUR_MS);
    expect(await runOfState(deps, owner, state)).toBeUndefined();
  });
});
