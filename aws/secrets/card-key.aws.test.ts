import { randomUUID } from 'node:crypto';
import { CreateSecretCommand, PutSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { expect, test } from 'vitest';
import { publishedKeyOf } from '#core/wires/a2a/card-signature.ts';
import { secretsManagerClient } from '#test/helpers/aws.ts';
import { newCardKey } from '#test/helpers/card-key.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { cardKeyOnAws } from './card-key.ts';

test('the key of cards is that of the secret, and one of another kind is refused, unseen', async () => {
  const client = secretsManagerClient();
  const clock = new ManualClock();
  const secretName = `made-up/${randomUUID()}`;
  const cardKey = cardKeyOnAws({ secretName, clock, client });
  await expect(cardKey()).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
  const { pem, remove } = newCardKey();
  remove();
  await client.send(new CreateSecretCommand({ Name: secretName, SecretString: pem }));
  expect(publishedKeyOf(await cardKey())).toMatchObject({ kty: 'EC', crv: 'P-256' });
  await client.send(new PutSecretValueCommand({ SecretId: secretName, SecretString: 'hidden' }));
  await clock.advance(5 * 60_000);
  const error: Error = await cardKey().then(
    () => expect.unreachable(),
    (thrown) => thrown,
  );
  expect(error.message).toContain(`the secret ${secretName}: must be a private key in PEM`);
  expect(JSON.stringify([error.message, error.stack])).not.toContain('hidden');
});
