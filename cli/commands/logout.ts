import { readProfiles, removeProfile } from '#client/profiles.ts';
import { UsageError } from '#client/usage-error.ts';
import type { Configure } from '../shared/cli.ts';
import { failureOf } from '../shared/failure.ts';
import { clientOf } from '../signing-in/connection.ts';

const logout: Configure = (command, cli) => {
  command
    .description('Sign out: remove a profile, and revoke its key if `platform login` created it')
    .addHelpText('after', '\nExample:\n  $ platform logout --profile staging')
    .action(async () => {
      const { configFolder } = cli.host;
      const known = await readProfiles(configFolder);
      const name = cli.options.profile ?? known.current;
      if (name === undefined) throw new UsageError('You are not signed in.');
      const profile = known.profiles[name];
      if (profile === undefined) throw new UsageError(`No profile named "${name}".`);
      let isRevoked = false;
      try {
        const client = await clientOf({ ...profile, source: `profile ${name}` }, undefined, cli.wire);
        isRevoked = (await client.cliLogout({})).revoked;
      } catch (error) {
        // The profile is removed anyway, so that users can always sign out of a machine.
        const { code, message } = await failureOf(error, profile);
        if (code !== 'UNAUTHORIZED') cli.output.warn(`The key was not revoked: ${message}`);
      }
      await removeProfile(configFolder, name);
      const rest = isRevoked ? 'Its key was revoked.' : 'Its key is still valid.';
      cli.output.result(
        { profile: name, removed: true, key_revoked: isRevoked },
        () => `Removed the profile ${name}. ${rest}`,
      );
    });
};

export default logout;
