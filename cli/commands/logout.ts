import { readProfiles, removeProfile } from '#client/profiles.ts';
import { UsageError } from '#client/usage-error.ts';
import type { Configure } from '../shared/cli.ts';
import { failureOf } from '../shared/failure.ts';
import { clientOf } from '../signing-in/connection.ts';

const logout: Configure = (command, cli) => {
  command
    .description('Forget a profile, and revoke its key if `platform login` made it in the browser or with a code')
    .addHelpText('after', '\nExample:\n  $ platform logout --profile staging')
    .action(async () => {
      const { configFolder } = cli.host;
      const known = await readProfiles(configFolder);
      const name = cli.options.profile ?? known.current;
      if (name === undefined) throw new UsageError('No profile is signed in.');
      const profile = known.profiles[name];
      if (profile === undefined) throw new UsageError(`There is no profile "${name}".`);
      let isRevoked = false;
      try {
        const client = await clientOf({ ...profile, source: `profile ${name}` }, undefined, cli.wire);
        isRevoked = (await client.cliLogout({})).revoked;
      } catch (error) {
        // The profile goes anyway: whoever leaves a machine must be able to.
        const { code, message } = failureOf(error, profile.url);
        if (code !== 'UNAUTHORIZED') cli.output.warn(`The key was not revoked: ${message}`);
      }
      await removeProfile(configFolder, name);
      const rest = isRevoked ? 'and its key is revoked' : 'its key stays valid where it is known';
      cli.output.result(
        { profile: name, removed: true, key_revoked: isRevoked },
        () => `The profile ${name} is forgotten, ${rest}.`,
      );
    });
};

export default logout;
