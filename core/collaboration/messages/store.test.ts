import { expect, test } from 'vitest';
import { memoryDeps } from '#test/helpers/memory-deps.ts';
import { MessageStore } from './store.ts';

test('messages of the same millisecond are listed in their order, the newest first', async () => {
  const store = new MessageStore(memoryDeps(), 'made-up');
  const levels = ['info', 'error', 'warning'] as const;
  const titles = Array.from({ length: 12 }, (_, index) => `message ${index}`);
  for (const [index, title] of titles.entries()) {
    const level = levels[index % levels.length]!;
    await store.send({ agentName: 'one', title, body: 'x', level, metadata: null });
  }
  for (const agentName of [undefined, 'one']) {
    const { messages } = await store.list({ ...(agentName && { agentName }) }, { limit: 20, offset: 0 });
    expect(messages.map(({ title }) => title)).toEqual(titles.toReversed());
  }
});
