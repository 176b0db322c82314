import { expect, test } from 'vitest';
import { createClockHandler } from './clock.ts';

test('a failed row does not stop the others, and fails the function after they have ended', async () => {
  const ended: string[] = [];
  const settled = async () => void ended.push('background');
  const handler = createClockHandler(
    'sweeper',
    { settled },
    {
      finishLostRuns: () => Promise.reject(new Error('no table')),
      watchBudgets: async () => {},
      takeBackCanaries: async () => {},
      eraseExpiredSessions: async () => {},
      announceEnds: async () => {},
      sendTelemetry: async () => {},
      sweepQueues: async () => {},
      resumeRuns: async () => {},
      async retryDeliveries() {
        await new Promise(setImmediate);
        ended.push('deliveries');
      },
    },
  );
  await expect(handler()).rejects.toThrow('no table');
  expect(ended).toEqual(['deliveries', 'background']);
});
