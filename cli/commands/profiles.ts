import { readProfiles } from '#client/profiles.ts';
import type { Configure } from '../shared/cli.ts';
import { table } from '../shared/output.ts';

const profiles: Configure = (command, cli) => {
  command.addHelpText('after', '\nExample:\n  $ platform profiles').action(async () => {
    const { configFolder } = cli.host;
    const known = await readProfiles(configFolder);
    const list = Object.entries(known.profiles).map(([each, { url }]) => ({
      name: each,
      url,
      current: each === known.current,
    }));
    if (list.length === 0) cli.output.note('No profiles. Run `platform login` to sign in.');
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
