import { EncryptCommand } from '@aws-sdk/client-kms';
import { beforeAll, describe, expect, test } from 'vitest';
import { createKmsKey, kmsClient } from '#test/helpers/aws.ts';
import { createDataKeys, KmsDataKeys, sealedOf } from './kms-data-keys.ts';

const REFUSED = { code: 'DATA_KEY', name: 'DataKeyError' };

describe('KmsDataKeys', () => {
  const client = kmsClient();
  let key: string;
  const of = (prefix: string, alias = key) => new KmsDataKeys({ client, key: alias, prefix });

  beforeAll(async () => {
    key = await createKmsKey(client);
  });

  test('opens no data key of another stage under the same KMS key', async () => {
    const { key: made, sealed } = await of('platform/prod').newDataKey('ws');
    await expect(of('platform/dev').openDataKey('ws', sealed)).rejects.toMatchObject(REFUSED);
    expect(await of('platform/prod').openDataKey('ws', sealed)).toEqual(made);
  });

  test('opens nothing else that the KMS key encrypted', async () => {
    const { CiphertextBlob } = await client.send(new EncryptCommand({ KeyId: key, Plaintext: Buffer.alloc(32) }));
    await expect(of('p').openDataKey('ws', sealedOf(CiphertextBlob!))).rejects.toMatchObject(REFUSED);
  });

  test('asks KMS for nothing that is damaged', async () => {
    const { sealed } = await of('p').newDataKey('ws');
    const damaged = `${sealed.slice(0, -8)}AAAAAAAA`;
    await expect(of('p', 'alias/unknown').openDataKey('ws', damaged)).rejects.toMatchObject(REFUSED);
  });

  test('a missing KMS key is no damage', async () => {
    const { sealed } = await of('p').newDataKey('ws');
    const missing = of('p', 'alias/unknown');
    await expect(missing.newDataKey('ws')).rejects.toMatchObject({ name: 'NotFoundException' });
    await expect(missing.openDataKey('ws', sealed)).rejects.toMatchObject({ name: 'NotFoundException' });
  });

  test('a function without the setting says so', () => {
    expect(() => createDataKeys({ key: undefined, prefix: 'p' })).toThrow('PLATFORM_DATA_KEY');
  });
});
