import type { OwnStatus } from '#client/own-platform.ts';
import { EXIT, UsageError } from '#client/usage-error.ts';
import { DATA_OPTION, inBytes, ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';
import { members } from '../shared/output.ts';

const status: Configure = (command, cli) => {
  command
    .option(...DATA_OPTION)
    .addHelpText('after', '\nExits with status 9 if the platform is not running.\n\nExample:\n  $ platform status')
    .action(async ({ data }) => {
      const found = await (await ownPlatform(cli, { data })).status();
      cli.output.result(found, shown);
      if (!found.running) {
        throw new UsageError('The platform is not running.', {
          hint: 'Run `platform start` to start it.',
          exitCode: EXIT.network,
        });
      }
    });
};

function shown({ running, sandbox, disk, last_backup, ...rest }: OwnStatus): string {
  const { pid, url, started_at, version, data_folder, data_version } = rest;
  return members({
    running: running ? `yes, process ${pid} since ${started_at}` : 'no',
    address: url,
    version,
    data: `${data_folder}${data_version === null ? ' (empty)' : ` (version ${data_version})`}`,
    sandbox: sandbox && `${sandbox.kind}${sandbox.problem ? `: ${sandbox.problem}` : ''}`,
    limits: sandbox?.limits_by,
    runs: sandbox && `${sandbox.running} of ${sandbox.max} sandboxes in use, ${sandbox.waiting} runs queued`,
    disk: `${inBytes(disk.free_bytes)} free of ${inBytes(disk.total_bytes)}`,
    'disk problem': disk.problem,
    'last backup': last_backup
      ? `${last_backup.created_at}, ${inBytes(last_backup.bytes)}: ${last_backup.file}`
      : 'none; run `platform backup` to create one',
  });
}

export default status;
