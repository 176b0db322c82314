import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { ownPlatform } from '../own-platform.ts';
import type { Configure } from '../shared/cli.ts';

const systemdUnit: Configure = (command, cli) => {
  command
    .argument('[file]', 'File to write the unit to, in addition to stdout')
    .addHelpText(
      'after',
      '\ndocs/self-host.md explains how to install it.\n\nExample:\n  $ platform systemd-unit agent-platform.service',
    )
    .action(async (file) => {
      const unit = (await ownPlatform(cli, { anyUrl: true })).systemdUnit();
      const path = file === undefined ? null : resolve(cli.host.cwd, file);
      if (path !== null) await writeFile(path, unit);
      cli.output.result({ file: path, unit }, () => unit.trimEnd());
    });
};

export default systemdUnit;
