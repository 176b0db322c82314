import { CreateKeyCommand, GenerateDataKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { parseAwsConfig } from '#aws/config.ts';
import { secretsContextOf } from '#aws/secrets/envelope-vault.ts';
import { KmsDataKeys } from '#aws/secrets/kms-data-keys.ts';
import { DataKeyError, signingVaultOf } from '#core/ports/vault.ts';
import { defineStage } from '#lib/config.ts';
import { createKmsKey, kmsClient } from '#test/helpers/aws.ts';
import { AWS_TEST_ACCOUNT } from '#test/helpers/aws-account.ts';
import { synthesise } from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import { readAssembly } from './assembly.ts';
import { accessKeyOf, startAwsGate } from './aws-gate.ts';
import { policiesOf } from './iam.ts';

/** Starts a gate with the rights of one function, and returns its settings and data keys. */
async function deployed(stage: Parameters<typeof defineStage>[0], fn: string) {
  const { folder, stacks } = synthesise(defineStage({ ...stage, sandbox: { kind: 'none' } }));
  const assembly = readAssembly(folder, stacks);
  const { properties } = assembly.of('AWS::Lambda::Function').find(({ arn }) => arn.endsWith(`-${stage.name}-${fn}`))!;
  const gate = await startAwsGate(
    { kms: inject('awsEndpoints').moto },
    { [fn]: policiesOf(assembly, properties.Role) },
  );
  onTestFinished(() => gate.close());
  const credentials = { ...AWS_TEST_ACCOUNT.credentials, accessKeyId: accessKeyOf(fn) };
  const client = new KMSClient({ ...AWS_TEST_ACCOUNT, credentials, endpoint: gate.url });
  const { dataKey: key = '', secretPrefix: prefix } = parseAwsConfig(properties.Environment.Variables);
  return { assembly, gate, key, prefix, of: (props: object) => new KmsDataKeys({ client, key, prefix, ...props }) };
}

const denied = expect.objectContaining({ name: 'AccessDeniedException' });

/** Creates the key of a stage, and another one. */
async function keysFor(alias: string): Promise<{ readonly other: string }> {
  await createKmsKey(kmsClient(), alias).catch((error) => {
    if (error.name !== 'AlreadyExistsException') throw error;
  });
  return { other: await createKmsKey(kmsClient()) };
}

describe.each(['calls', 'a2a', 'mcp', 'loop-worker', 'schedule-fired', 'schedule-sweeper', 'secrets'])(
  'the function %s',
  (fn) => {
    test('makes data keys, and opens those of its stage', async () => {
      const { assembly, gate, key, of } = await deployed(dev, fn);
      expect(assembly.of('AWS::KMS::Alias').map(({ properties }) => properties.AliasName)).toEqual([key]);
      const { other } = await keysFor(key);
      const made = await of({}).newDataKey('ws');
      expect(await of({}).openDataKey('ws', made.sealed)).toEqual(made.key);
      expect([...gate.refused]).toEqual([]);
      for (const props of [{ prefix: 'platform/another' }, { key: other }]) {
        await expect(of(props).newDataKey('ws')).rejects.toEqual(denied);
        await expect(of(props).openDataKey('ws', made.sealed)).rejects.toEqual(denied);
      }
    });
  },
);

test('the function sweeper opens data keys of its stage, and makes none', async () => {
  const { key, of } = await deployed(dev, 'sweeper');
  await keysFor(key);
  const made = await (await deployed(dev, 'calls')).of({}).newDataKey('ws');
  expect(await of({}).openDataKey('ws', made.sealed)).toEqual(made.key);
  await expect(of({}).newDataKey('ws')).rejects.toEqual(denied);
  await expect(of({ prefix: 'platform/another' }).openDataKey('ws', made.sealed)).rejects.toEqual(denied);
});

test('a stage with a key of its own uses that, and only for its data keys', async () => {
  const { KeyMetadata } = await kmsClient().send(new CreateKeyCommand({}));
  const keyArn = KeyMetadata!.Arn!;
  const stage = { ...dev, name: 'own', keyArn };
  const { assembly, key, of } = await deployed(stage, 'calls');
  expect(assembly.of('AWS::KMS::Key')).toEqual([]);
  expect(key).toBe(keyArn);
  const made = await of({}).newDataKey('ws');
  const worker = await deployed(stage, 'loop-worker');
  expect(await worker.of({}).openDataKey('ws', made.sealed)).toEqual(made.key);
  await expect(worker.of({ prefix: 'platform/another' }).openDataKey('ws', made.sealed)).rejects.toEqual(denied);
});

test('a stage with a key of its own seals secrets with it', async () => {
  const { KeyMetadata } = await kmsClient().send(new CreateKeyCommand({}));
  const stage = { ...dev, name: 'own', keyArn: KeyMetadata!.Arn!, secrets: 'envelope' } as const;
  const { key, prefix, of } = await deployed(stage, 'secrets');
  expect(key).toBe(stage.keyArn);
  const secrets = of({ prefix: secretsContextOf(prefix) });
  const made = await secrets.newDataKey('ws');
  expect(await secrets.openDataKey('ws', made.sealed)).toEqual(made.key);
  await expect(of({ prefix: 'platform/another' }).newDataKey('ws')).rejects.toEqual(denied);
});

describe('keys of secrets', () => {
  const stage = { ...dev, name: 'sealed', secrets: 'envelope' } as const;
  const openSecrets = async (fn: string) => {
    const { key, prefix, of, ...others } = await deployed(stage, fn);
    return { ...others, key, of, prefix: secretsContextOf(prefix) };
  };

  test('are made by the function that writes secrets, and opened by those that read them', async () => {
    const { assembly, gate, key, of, prefix } = await openSecrets('secrets');
    expect(assembly.of('AWS::KMS::Alias').map(({ properties }) => properties.AliasName)).toEqual([key]);
    const { other } = await keysFor(key);
    const made = await of({ prefix }).newDataKey('ws');
    expect(await of({ prefix }).openDataKey('ws', made.sealed)).toEqual(made.key);
    expect([...gate.refused]).toEqual([]);
    for (const props of [{ prefix: 'platform/another/secrets' }, { prefix, key: other }]) {
      await expect(of(props).newDataKey('ws')).rejects.toEqual(denied);
      await expect(of(props).openDataKey('ws', made.sealed)).rejects.toEqual(denied);
    }
    // The keys of what workspaces seal are others, though the function may use them.
    await expect(of({}).openDataKey('ws', made.sealed)).rejects.toThrow(DataKeyError);
    const signing = await of({ prefix }).newDataKey(signingVaultOf('ws'));
    for (const fn of ['loop-worker', 'calls']) {
      const reader = await openSecrets(fn);
      expect(await reader.of({ prefix }).openDataKey('ws', made.sealed)).toEqual(made.key);
      await expect(reader.of({ prefix }).newDataKey('ws')).rejects.toEqual(denied);
    }
    for (const fn of ['schedules', 'service-instances']) {
      const signer = await openSecrets(fn);
      expect(await signer.of({ prefix }).openDataKey(signingVaultOf('ws'), signing.sealed)).toEqual(signing.key);
      await expect(signer.of({ prefix }).openDataKey('ws', made.sealed)).rejects.toEqual(denied);
      await expect(signer.of({ prefix }).newDataKey(signingVaultOf('ws'))).rejects.toEqual(denied);
    }
    const stranger = await deployed(stage, 'agents');
    await expect(stranger.of({ key, prefix }).openDataKey('ws', made.sealed)).rejects.toEqual(denied);
  });

  test('are not opened without a workspace in the request', async () => {
    const { gate, key, prefix } = await openSecrets('secrets');
    await keysFor(key);
    const credentials = { ...AWS_TEST_ACCOUNT.credentials, accessKeyId: accessKeyOf('secrets') };
    const client = new KMSClient({ ...AWS_TEST_ACCOUNT, credentials, endpoint: gate.url });
    const EncryptionContext = { vault: prefix };
    const command = new GenerateDataKeyCommand({ KeyId: key, KeySpec: 'AES_256', EncryptionContext });
    await expect(client.send(command)).rejects.toEqual(denied);
  });

  test('a stage with Secrets Manager has none', async () => {
    const { key, of, prefix } = await deployed(dev, 'calls');
    await expect(of({ prefix: secretsContextOf(prefix) }).newDataKey('ws')).rejects.toEqual(denied);
    expect(key).not.toBe('');
  });
});

test('a function that runs no agents has no such rights', async () => {
  const { key, of } = await deployed(dev, 'agents');
  expect(key).toBe('');
  await expect(of({ key: 'alias/platform-dev-data-keys' }).newDataKey('ws')).rejects.toEqual(denied);
});
