import { preferNames, pythonEntries } from '../entries.ts';
import type { Framework } from '../framework.ts';
import { declares, moduleOf } from '../python-program.ts';
import { webService } from '../web-service.ts';

export const flask: Framework = {
  name: 'flask',
  title: 'Flask',
  language: 'python',
  packages: ['flask'],
  example:
    'it must be a variable at the top of a module, such as `app = Flask(__name__)`, or a function `create_app()`.',
  entriesIn: (project) =>
    preferNames(pythonEntries(project, /\bFlask\(/, /\bflask\b/), 'app', 'application', 'create_app'),
  adapt(project, entry) {
    const { folders, module } = moduleOf(project, entry.file);
    const call = entry.isFactory ? '()' : '';
    const name = entry.name ?? 'app';
    const gunicorn = declares(project, 'gunicorn');
    const place = folders.length > 0 ? ` --pythonpath ${folders[0]}` : '';
    return webService(project, {
      language: 'python',
      command: gunicorn
        ? `python3 -m gunicorn${place} --bind 0.0.0.0:$PORT '${module}:${name}${call}'`
        : `python3 -m flask --app '${entry.file}:${name}${call}' run --host 0.0.0.0 --port $PORT`,
      notes: [
        gunicorn
          ? undefined
          : "It starts Flask's own server. For production, add gunicorn to your requirements and run init again.",
      ],
    });
  },
};
