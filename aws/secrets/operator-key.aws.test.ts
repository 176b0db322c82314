import { hash, randomUUID } from 'node:crypto';
import { CreateSecretCommand, PutSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { expect, test } from 'vitest';
import { secretsManagerClient } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { operatorKeyOnAws } from './operator-key.ts';

const FIVE_MINUTES = 5 * 60_000;

test('the key is that of the secret, which counts within five minutes; one of another form is refused, unseen', async () => {
  const client = secretsManagerClient();
  const clock = new ManualClock();
  const secretName = `made-up/${randomUUID()}`;
  const operatorKey = operatorKeyOnAws({ secretName, clock, client });
  await expect(operatorKey()).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
  const first = randomUUID() + randomUUID();
  await client.send(new CreateSecretCommand({ Name: secretName, SecretString: first }));
  expect(await operatorKey()).toBe(hash('sha256', first));
  const put = (SecretString: string) => client.send(new PutSecretValueCommand({ SecretId: secretName, SecretString }));
  const second = randomUUID() + randomUUID();
  await put(second);
  expect(await operatorKey()).toBe(hash('sha256', first));
  await clock.advance(FIVE_MINUTES);
  expect(await operatorKey()).toBe(hash('sha256', second));
  for (const wrong of ['short-hidden', `sk_live_hidden${second}`, `${second} hidden`]) {
    await put(wrong);
    await clock.advance(FIVE_MINUTES);
    const error: Error = await operatorKey().then(
      () => expect.unreachable(wrong),
      (thrown) => thrown,
    );
    expect(error.message).toContain(`the secret ${secretName} must be 32 to 200 characters`);
    expect(JSON.stringify([error.message, error.stack])).not.toContain('hidden');
  }
});
