import { escapeControls } from '#core/base/control-characters.ts';
import type { Log } from '#core/ports/deps.ts';

const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
type Level = (typeof LEVELS)[number];

/** Writes JSON lines of level `minLevel` and above to stderr. */
export function createLog(minLevel: Level): Log {
  const at = (level: Level): Log[Level] => {
    // Every request has a line of level `debug`.
    if (LEVELS.indexOf(level) < LEVELS.indexOf(minLevel)) return () => {};
    return (message: string, fields: Record<string, unknown> = {}): void => {
      process.stderr.write(
        `${escapeControls(JSON.stringify({ time: new Date().toISOString(), level, message, ...fields }))}\n`,
      );
    };
  };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
