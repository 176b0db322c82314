import type { Configure } from '../cli.ts';
import { table } from '../output.ts';
import { readProfiles, switchProfile } from '../profiles.ts';

const profiles: Configure = (command, cli) => {
  command
    .argument('[name]', 'make this one the current profile')
    .addHelpText('after', '\nExample:\n  $ platform profiles staging')
    .action(async (name?: string) => {
      const { configFolder } = cli.host;
      if (name !== undefined) await switchProfile(configFolder, name);
      const known = await readProfiles(configFolder);
      const list = Object.entries(known.profiles).map(([each, { url }]) => ({
        name: each,
        url,
        current: each === known.current,
      }));
      if (list.length === 0) cli.output.note('There is no profile: `platform login` makes one.');
      cli.output.result(list, (all) =>
        table(
          ['', 'profile', 'platform'],
          all.map((row) => [row.current ? '*' : '', row.name, row.url]),
          cli.output.width,
        ),
      );
    });
};

export default profiles;
