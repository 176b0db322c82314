import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Makes a key for cards. Returns its text and a file with it, which `remove` deletes. */
export function newCardKey() {
  const folder = mkdtempSync(join(tmpdir(), 'platform-card-key-'));
  const file = join(folder, 'card-key.pem');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  writeFileSync(file, pem, { mode: 0o600 });
  return { pem, file, remove: () => rmSync(folder, { recursive: true }) };
}
