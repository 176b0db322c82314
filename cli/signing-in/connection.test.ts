import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readProfiles, saveLocalProfile, saveProfile } from '#client/profiles.ts';
import { findConnection } from './connection.ts';

const LOCAL = 'http://127.0.0.1:4280';
const KEY = 'sk_live_of-the-environment';

async function setUp() {
  const configFolder = mkdtempSync(join(tmpdir(), 'profiles-'));
  await saveProfile(configFolder, 'other', { url: 'https://other.example', key: 'sk_live_of-other', workspaceId: 'w' });
  return (env: Record<string, string>, flags: { url?: string; profile?: string } = {}) =>
    findConnection({ env, configFolder, ...flags });
}

describe('a key of the environment goes to', () => {
  test.each<[string, Record<string, string>, { url?: string }, string]>([
    ['the local platform', {}, {}, LOCAL],
    ['PLATFORM_API_URL', { PLATFORM_API_URL: 'https://mine.example/' }, {}, 'https://mine.example'],
    ['PLATFORM_GATEWAY_URL', { PLATFORM_GATEWAY_URL: 'http://gateway' }, {}, 'http://gateway'],
    ['--url', { PLATFORM_API_URL: 'https://mine.example' }, { url: 'https://flag.example' }, 'https://flag.example'],
    ['the local platform, not to the named profile', { PLATFORM_PROFILE: 'other' }, {}, LOCAL],
  ])('%s', async (_, env, flags, url) => {
    const find = await setUp();
    const found = await find({ ...env, PLATFORM_API_KEY: KEY }, flags);
    expect(found).toMatchObject({ url, key: KEY, workspace: undefined, source: 'environment' });
  });
});

test('a profile is used whole, whatever the environment has, when it is named', async () => {
  const find = await setUp();
  const whole = { url: 'https://other.example', key: 'sk_live_of-other', workspace: 'w' };
  expect(await find({})).toMatchObject(whole);
  const env = { PLATFORM_API_KEY: KEY, PLATFORM_API_URL: 'https://mine.example' };
  expect(await find(env, { profile: 'other' })).toMatchObject(whole);
});

test('a key of the environment that is the key of the profile goes to its address', async () => {
  const find = await setUp();
  const found = await find({ PLATFORM_API_KEY: 'sk_live_of-other' });
  expect(found).toMatchObject({ url: 'https://other.example', key: 'sk_live_of-other', workspace: 'w' });
  expect(found.mismatch).toBeUndefined();
});

test('an address of the environment or of a flag gets no key of a profile', async () => {
  const find = await setUp();
  const ofEnv = await find({ PLATFORM_API_URL: 'https://mine.example' });
  expect(ofEnv.key).toBeUndefined();
  expect(ofEnv.mismatch).toMatch(/profile "other".*https:\/\/other\.example.*unset PLATFORM_API_URL/);
  for (const profile of [undefined, 'other']) {
    const ofFlag = await find({}, { url: 'https://mine.example', profile });
    expect(ofFlag.key).toBeUndefined();
    expect(ofFlag.mismatch).toMatch(/https:\/\/other\.example.*--url https:\/\/mine\.example.*leave out --url/);
  }
});

test('a key that was not sent to the address of a profile is explained', async () => {
  const find = await setUp();
  expect((await find({ PLATFORM_API_KEY: KEY })).mismatch).toMatch(
    /PLATFORM_API_KEY is not sent to https:\/\/other\.example.*profile "other".*Set PLATFORM_API_URL/,
  );
  const whole = { PLATFORM_API_KEY: KEY, PLATFORM_API_URL: 'https://mine.example' };
  expect((await find(whole)).mismatch).toBeUndefined();
});

test('PLATFORM_URL is refused by name', async () => {
  const find = await setUp();
  await expect(find({ PLATFORM_URL: 'https://mine.example' })).rejects.toThrow(/PLATFORM_URL.*PLATFORM_API_URL/);
});

test('a platform that starts becomes the current one only if there is none', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'profiles-'));
  const local = { url: LOCAL, key: 'sk_live_of-local' };
  expect(await saveLocalProfile(folder, local)).toBe('local');
  expect(await readProfiles(folder)).toMatchObject({ current: 'local' });
  await saveProfile(folder, 'prod', { url: 'https://prod.example', key: 'sk_live_of-prod' });
  expect(await saveLocalProfile(folder, { ...local, key: 'sk_live_of-new' })).toBe('local');
  expect(await readProfiles(folder)).toMatchObject({
    current: 'prod',
    profiles: { local: { key: 'sk_live_of-new' } },
  });
});
