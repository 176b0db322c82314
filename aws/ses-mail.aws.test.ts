import { CreateEmailIdentityCommand, SESv2Client } from '@aws-sdk/client-sesv2';
import { expect, inject, test } from 'vitest';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws.ts';
import { SesMail } from './ses-mail.ts';

test('sends from a verified identity, and says when it could not', async () => {
  const client = new SESv2Client({ ...AWS_TEST_ACCOUNT, endpoint: inject('awsEndpoints').moto });
  const from = 'platform@sender.example.com';
  const message = { to: 'ann@example.com', subject: 'Invitation', text: 'https://example.com/invites/x' };
  await expect(new SesMail(client, from).send(message)).rejects.toThrow();
  await client.send(new CreateEmailIdentityCommand({ EmailIdentity: from }));
  expect(await new SesMail(client, from).send(message)).toBe(true);
});
