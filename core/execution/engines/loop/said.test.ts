import { describe, expect, test } from 'vitest';
import type { LlmFile, LlmMessage, LlmToolCall } from '#core/ports/llm.ts';
import { saidBefore, settled } from './said.ts';

const user = (text: string): LlmMessage => ({ role: 'user', text });
const call = (id: string): LlmToolCall => ({ id, name: 'bash', input: { command: id } });
const assistant = (text: string, ...ids: string[]): LlmMessage => ({
  role: 'assistant',
  text,
  toolCalls: ids.map(call),
  raw: { signature: text },
});
const results = (text: string, ...ids: string[]): LlmMessage => ({
  role: 'tool',
  results: ids.map((id) => ({ id, name: 'bash', text, isError: false })),
});
const none = () => undefined;
const sizeOf = (messages: readonly LlmMessage[]): number => Buffer.byteLength(JSON.stringify(messages));

/** Checks what all providers ask of a conversation. */
function checkIsValid(messages: readonly LlmMessage[]): void {
  expect(messages[0]?.role).toBe('user');
  for (const [index, message] of messages.entries()) {
    const before = messages[index - 1];
    const called = before?.role === 'assistant' ? before.toolCalls.map(({ id }) => id) : [];
    const answered = message.role === 'tool' ? message.results.map(({ id }) => id) : [];
    expect(answered).toEqual(called);
  }
  const last = messages.at(-1)!;
  expect(last.role === 'assistant' && last.toolCalls.length > 0).toBe(false);
}

describe('a conversation that has ended', () => {
  test('stays as it is if all its calls have results', () => {
    const whole = [user('a'), assistant('x', '1'), results('r', '1'), user('b'), assistant('y')];
    expect(settled(whole, none)).toEqual(whole);
  });

  test('has a result for each call, also after a cancellation', () => {
    const cut = [user('a'), assistant('x', '1', '2', '3')];
    const known = { id: '2', name: 'bash', text: 'known', isError: false };
    const found = settled(cut, ({ id }) => (id === '2' ? known : undefined));
    checkIsValid(found);
    expect(found.at(-1)).toEqual({
      role: 'tool',
      results: [
        { id: '1', name: 'bash', isError: true, text: expect.stringContaining('Whether it took effect is unknown') },
        known,
        { id: '3', name: 'bash', isError: true, text: expect.stringContaining('check before repeating') },
      ],
    });
  });

  test('restricts the next message to no tool, and what follows the restriction has no signature', () => {
    const found = settled([user('a'), assistant('x'), { role: 'only', tool: 's' }, assistant('y')], none);
    expect(found).toEqual([user('a'), assistant('x'), { role: 'assistant', text: 'y', toolCalls: [] }]);
  });

  test('is shortened in large steps if it is long, and stays valid', () => {
    let messages: LlmMessage[] = [];
    const cuts: number[] = [];
    for (let number = 1; number <= 120; number++) {
      const before = messages.length;
      messages.push(user(`question ${number}`), assistant('x', `${number}`), results('r'.repeat(10_000), `${number}`));
      messages.push(assistant(`answer ${number}`));
      messages = settled(messages, none);
      checkIsValid(messages);
      expect(sizeOf(messages)).toBeLessThan(450 * 1024);
      if (messages.length < before) {
        cuts.push(number);
        expect(messages[0]).toEqual(user('[Earlier messages of this conversation are left out, because it was long.]'));
        expect(messages.some((message) => message.role === 'assistant' && message.raw !== undefined)).toBe(false);
        expect(messages.at(-1)).toMatchObject({ text: `answer ${number}` });
      }
    }
    expect(cuts.length).toBeLessThan(8);
  });

  test('of one long run loses its oldest results', () => {
    const messages = [user('a')];
    for (let turn = 1; turn <= 60; turn++)
      messages.push(assistant('x', `${turn}`), results('r'.repeat(16_000), `${turn}`));
    const found = settled([...messages, assistant('end')], none);
    checkIsValid(found);
    expect(found[1]).toEqual(user('a'));
    expect(sizeOf(found)).toBeLessThan(300 * 1024);
    expect(JSON.stringify(found.at(-2))).toContain('rrr');
  });

  test('shows only the newest files if there are many', () => {
    const file = (name: string): LlmFile => ({ name, mediaType: 'image/png', bytes: Buffer.alloc(10) });
    const messages = Array.from({ length: 11 }, (_, index): LlmMessage[] => [
      { role: 'user', text: `look ${index}`, files: [file(`${index}.png`)] },
      assistant(`seen ${index}`),
    ]).flat();
    expect(settled(messages.slice(0, -2), none)).toEqual(messages.slice(0, -2));
    const found = settled(messages, none);
    const names = found.flatMap((message) =>
      message.role === 'user' ? (message.files ?? []).map(({ name }) => name) : [],
    );
    expect(names).toEqual(['6.png', '7.png', '8.png', '9.png', '10.png']);
    expect(found[0]).toMatchObject({ text: 'look 0\n[A file that was shown here is not shown any more.]' });
    expect(found[1]).not.toHaveProperty('raw');
  });
});

test('another version of the agent, or another model, gets no thoughts that were signed for these', () => {
  const messages = [user('a'), assistant('x')];
  const said = { frame: 'f', model: 'm', messages };
  expect(saidBefore(said, { frame: 'f', model: 'm' })).toEqual(messages);
  for (const now of [
    { frame: 'g', model: 'm' },
    { frame: 'f', model: 'n' },
  ])
    expect(saidBefore(said, now)).toEqual([user('a'), { role: 'assistant', text: 'x', toolCalls: [] }]);
});
