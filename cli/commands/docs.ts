import { UsageError } from '#client/usage-error.ts';
import { suggestion } from '#core/manifest/did-you-mean.ts';
import { packedFiles } from '../packed-files.ts';
import type { Configure } from '../shared/cli.ts';
import { table } from '../shared/output.ts';

const docs: Configure = (command, cli) => {
  command
    .argument('[topic]', 'Page name, such as schedules, or interface/schedules for the reference')
    .addHelpText('after', '\nExample:\n  $ platform docs schedules')
    .action((topic) => {
      const pages = Object.entries(packedFiles()).flatMap(([path, text]) => {
        const name = /^docs\/(.+)\.md$/.exec(path)?.[1];
        return name === undefined || typeof text !== 'string'
          ? []
          : [{ topic: name, title: /^# (.+)$/m.exec(text)?.[1] ?? name, text }];
      });
      if (topic === undefined) {
        const list = pages.map(({ topic: name, title }) => ({ topic: name, title }));
        return cli.output.result(list, (all) =>
          table(
            ['topic', 'page'],
            all.map((row) => Object.values(row)),
            cli.output.width,
          ),
        );
      }
      const page = pages.find(({ topic: name }) => name === topic.replace(/^docs\/|\.md$/g, ''));
      if (page === undefined) {
        const known = pages.map(({ topic: name }) => name);
        throw new UsageError(`No page named "${topic}"${suggestion(topic, known)}`, {
          hint: 'Run `platform docs` to list the pages.',
          exitCode: 4,
        });
      }
      cli.output.result(page, ({ text }) => text.trimEnd());
    });
};

export default docs;
