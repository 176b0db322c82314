import { describe, expect, test } from 'vitest';
import { HostBusyError } from '#core/base/errors.ts';
import { HastyClock } from '#test/helpers/hasty-clock.ts';
import { retryOnConflict } from './retry-on-conflict.ts';

describe('untilWritten', () => {
  test('goes on while other writers are faster and while the host throttles', async () => {
    const clock = new HastyClock();
    let attempts = 0;
    const written = await retryOnConflict(clock, 'the item', async () => {
      attempts += 1;
      if (attempts < 4) throw new HostBusyError('throttled');
      return attempts < 6 ? undefined : 'written';
    });
    expect({ written, attempts }).toEqual({ written: 'written', attempts: 6 });
    // The first retry is immediate, the others follow pauses.
    expect(clock.waits).toHaveLength(4);
  });

  test('gives up with the error of a host that goes on throttling', async () => {
    let attempts = 0;
    const busy = async () => {
      attempts += 1;
      throw new HostBusyError('throttled');
    };
    await expect(retryOnConflict(new HastyClock(), 'the item', busy)).rejects.toMatchObject({ code: 'HOST_BUSY' });
    expect(attempts).toBe(100);
  });

  test('does not repeat any other error', async () => {
    let attempts = 0;
    const broken = async () => {
      attempts += 1;
      throw new Error('broken');
    };
    await expect(retryOnConflict(new HastyClock(), 'the item', broken)).rejects.toThrow('broken');
    expect(attempts).toBe(1);
  });
});
