import { expect, test } from 'vitest';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { withIdleTimeout } from './idle-timeout.ts';

test.each([
  [0, 30],
  [1_280_000, 40],
  [20 * 1024 ** 2, 194],
])('a request with %i bytes of files may take %i seconds to be sent', async (fileBytes, seconds) => {
  const clock = new ManualClock();
  const { signal } = new AbortController();
  let stopped: unknown;
  const sent = withIdleTimeout(clock, { provider: 'gemini', signal, isStreamed: true, fileBytes }, (watched) => {
    return new Promise((_, reject) => {
      watched.signal.addEventListener('abort', () => {
        stopped = watched.signal.reason;
        reject(stopped);
      });
    });
  });
  sent.catch(() => {});
  await clock.advance(seconds * 1000 - 1);
  expect(stopped).toBeUndefined();
  await clock.advance(1);
  await expect(sent).rejects.toMatchObject({
    message: `The request could not be sent to Gemini within ${seconds} seconds.`,
  });
});
