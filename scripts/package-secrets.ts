import { runSecrets } from './secrets.ts';

/**
 * `npx agent-platform-secrets status|move|clean <platform> [--to <place>] [--dry-run]`, where `<platform>` is the prefix of
 * the platform's stack names.
 */
await runSecrets({
  command: 'npx agent-platform-secrets',
  target: '<platform>',
  platformOf: (platform) => platform,
});
