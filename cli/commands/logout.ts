import type { Configure } from '../cli.ts';
import { UsageError } from '../failure.ts';
import { readProfiles, removeProfile } from '../profiles.ts';

const logout: Configure = (command, cli) => {
  command
    .description('Forget a profile; its key stays valid until `platform keys delete`')
    .addHelpText('after', '\nExample:\n  $ platform logout --profile staging')
    .action(async () => {
      const { configFolder } = cli.host;
      const name = cli.options.profile ?? (await readProfiles(configFolder)).current;
      if (name === undefined) throw new UsageError('No profile is signed in.');
      if (!(await removeProfile(configFolder, name))) throw new UsageError(`There is no profile "${name}".`);
      cli.output.result({ profile: name, removed: true }, () => `The profile ${name} is forgotten.`);
    });
};

export default logout;
