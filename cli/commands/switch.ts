import { readProfiles, switchProfile } from '#client/profiles.ts';
import { UsageError } from '#client/usage-error.ts';
import type { Configure } from '../shared/cli.ts';

const switchTo: Configure = (command, cli) => {
  command
    .argument('[profile]', 'asked for, if it is missing')
    .addHelpText('after', '\nExample:\n  $ platform switch staging')
    .action(async (given) => {
      const { configFolder } = cli.host;
      const { profiles } = await readProfiles(configFolder);
      const names = Object.keys(profiles);
      if (names.length === 0) throw new UsageError('There is no profile: `platform login` makes one.');
      const choices = names.map((value) => ({ value, hint: profiles[value]!.url }));
      const name = given ?? (await cli.choose('Profile', choices, 'the name of a profile'));
      await switchProfile(configFolder, name);
      cli.output.result(
        { profile: name, url: profiles[name]!.url },
        ({ url }) => `Commands now go to ${url} (${name}).`,
      );
    });
};

export default switchTo;
