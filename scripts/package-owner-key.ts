import { parseArgs } from 'node:util';
import { printOwnerKey } from './owner-key.ts';

/**
 * `npx agent-platform-key <platform> [--another] [--cell <letter>]`, where `<platform>` is the prefix of the platform's stack
 * names, and the letter is its prop `cell`.
 */
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { another: { type: 'boolean' }, cell: { type: 'string' } },
});
const [platform] = positionals;
if (platform === undefined) {
  process.stderr.write(
    'Name the platform as the names of its stacks begin, such as: agent-platform-key platform-prod\n',
  );
  process.exitCode = 1;
} else {
  await printOwnerKey({
    tablePrefix: `${platform}-`,
    cell: values.cell,
    isFurther: values.another ?? false,
    further: `npx agent-platform-key ${platform} --another`,
    deploy: 'npx cdk deploy --all',
  });
}
