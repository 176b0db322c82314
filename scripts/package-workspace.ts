import { runMoves } from './moves.ts';

/** `npx agent-platform-workspace export|import|close|open|cancel|forget <platform> ...` */
await runMoves({
  command: 'npx agent-platform-workspace',
  target: '<platform>',
  platformOf: (platform) => platform,
});
