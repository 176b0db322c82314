import { readProfiles, switchProfile } from '#client/profiles.ts';
import { UsageError } from '#client/usage-error.ts';
import type { Configure } from '../shared/cli.ts';

const switchTo: Configure = (command, cli) => {
  command
    .argument('[profile]', 'Profile to switch to; prompts if omitted')
    .addHelpText('after', '\nExample:\n  $ platform switch staging')
    .action(async (given) => {
      const { configFolder } = cli.host;
      const { profiles } = await readProfiles(configFolder);
      const names = Object.keys(profiles);
      if (names.length === 0) throw new UsageError('No profiles. Run `platform login` to sign in.');
      const choices = names.map((value) => ({ value, hint: profiles[value]!.url }));
      const name = given ?? (await cli.choose('Profile', choices, 'a profile'));
      await switchProfile(configFolder, name);
      cli.output.result({ profile: name, url: profiles[name]!.url }, ({ url }) => `Switched to ${name} (${url}).`);
    });
};

export default switchTo;
