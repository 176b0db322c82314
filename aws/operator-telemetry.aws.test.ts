import { randomUUID } from 'node:crypto';
import { CreateSecretCommand, PutSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { afterEach, expect, inject, test, vi } from 'vitest';
import { AWS_TEST_ACCOUNT, secretsManagerClient } from '#test/helpers/aws.ts';
import { ManualClock } from '#test/helpers/manual-clock.ts';
import { parseAwsConfig } from './config.ts';
import { type OperatorTelemetrySettings, operatorTelemetryParts } from './operator-telemetry.ts';

const COLLECTOR = { endpoint: 'https://otel.example.com/', serviceName: 'agents', attributes: { env: 'prod' } };
const SAMPLING = { sampler: 'always_on', ratio: 1 } as const;

const clock = new ManualClock();
const parts = (settings?: OperatorTelemetrySettings) => {
  const variables = settings === undefined ? {} : { PLATFORM_OPERATOR_TELEMETRY: JSON.stringify(settings) };
  return operatorTelemetryParts({ config: parseAwsConfig(variables), clock }).operatorTelemetry;
};

afterEach(() => vi.unstubAllEnvs());

test('a stage without a collector has none, and one without a secret sends no headers', async () => {
  expect(parts()).toBeUndefined();
  const operator = parts({ ...COLLECTOR, ...SAMPLING })!;
  expect(operator).toMatchObject({
    url: 'https://otel.example.com/v1/traces',
    resource: { 'service.name': 'agents', env: 'prod' },
  });
  expect(await operator.headers()).toEqual({});
});

test('the headers are those of the secret, read when spans are sent; a malformed one is refused, unseen', async () => {
  const { region, credentials } = AWS_TEST_ACCOUNT;
  vi.stubEnv('AWS_ENDPOINT_URL_SECRETS_MANAGER', inject('awsEndpoints').moto);
  vi.stubEnv('AWS_REGION', region);
  vi.stubEnv('AWS_ACCESS_KEY_ID', credentials.accessKeyId);
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', credentials.secretAccessKey);
  const client = secretsManagerClient();
  const secretName = `made-up/${randomUUID()}`;
  const operator = parts({ ...COLLECTOR, ...SAMPLING, secretName })!;
  await expect(operator.headers()).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
  await client.send(
    new CreateSecretCommand({ Name: secretName, SecretString: 'authorization=Basic%20made-up, x=1\n' }),
  );
  expect(await operator.headers()).toEqual({ authorization: 'Basic made-up', x: '1' });
  await client.send(new PutSecretValueCommand({ SecretId: secretName, SecretString: 'hidden' }));
  await clock.advance(5 * 60_000);
  const error: Error = await operator.headers().then(
    () => expect.unreachable(),
    (thrown) => thrown,
  );
  expect(error.message).toBe(`the secret ${secretName}: must be name=value, separated by commas.`);
  expect(String(error.stack)).not.toContain('hidden');
});
