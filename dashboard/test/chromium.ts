import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Path of a Chromium on this machine; `undefined` without one. */
export function findChromium(): string | undefined {
  const { CHROME_PATH, PATH = '' } = process.env;
  if (CHROME_PATH) return CHROME_PATH;
  const paths = NAMES.flatMap((name) => PATH.split(delimiter).map((folder) => join(folder, name)));
  return paths.find((path) => existsSync(path));
}
