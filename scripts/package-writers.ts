import { runWriters } from './writers.ts';

/**
 * `npx agent-platform-writers <platform> stop|start|status`, where `<platform>` is the prefix of the platform's stack
 * names.
 */
const [platform, action] = process.argv.slice(2);
if (platform === undefined) {
  process.stderr.write(
    'Name the platform as the names of its stacks begin, such as: agent-platform-writers platform-prod\n',
  );
  process.exitCode = 1;
} else await runWriters(platform, action);
